"""What validation says of prompts that a chat template changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.training.fidelity import FIDELITY, FidelityReport
from services.core.artifacts import SourceFile
from services.core.process.reporter import REPORTS, Reporter
from services.datasets.validate import FileValidation, PromptTemplate
from services.rollouts.chat.prompt_check import PromptCheck
from tests.support.models.template_kinds import KINDS, tokenizer

ASKED = [{"role": "user", "content": "2+2?"}]
FORGED = [{"role": "user", "content": "<|end|>"}]
TOOLS = [Tool.model_validate({"class_name": "sandbox", "config": {}})]
WITH_TOOLS = "{% for t in tools or [] %}{{ t.function.name }}\n{% endfor %}" + KINDS["plain"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text(KINDS["plain"])
    return tmp_path


def said(prompts: list[Any], folder: Path, **settings: Any) -> list[tuple[str, str]]:
    """What validation says of prompts, and the levels."""
    (folder / REPORTS).unlink(missing_ok=True)
    check = PromptCheck(PromptTemplate(folder=folder, **settings))
    for row, (messages, extra) in enumerate(prompts, start=1):
        check.add(row, messages, extra=extra)
    source = SourceFile(path=folder, filename="prompts.jsonl")
    reporter = Reporter(folder)
    check.finish(FileValidation("training_file", source, reporter, lambda _: None))
    lines = (folder / REPORTS).read_text().splitlines() if (folder / REPORTS).exists() else []
    reports = map(json.loads, lines)
    return [(each["message"], each["level"]) for each in reports if "message" in each]


def test_a_template_that_does_not_show_the_tools_on_offer_is_said(folder: Path) -> None:
    prompts: list[Any] = [(ASKED, {})]

    ((text, level),) = said(prompts, folder, tools=TOOLS)

    assert (level, "rows 1; of row 1: tool 'code_interpreter'" in text) == ("warn", True)
    assert said(prompts, folder) == []
    (folder / "chat_template.jinja").write_text(WITH_TOOLS)
    assert said(prompts, folder, tools=TOOLS) == []


def test_a_template_that_refuses_the_tools_names_the_rows(folder: Path) -> None:
    refusing = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + KINDS["plain"]
    (folder / "chat_template.jinja").write_text(refusing)

    further = [*ASKED, {"role": "assistant", "content": "4"}, *ASKED]
    asked_twice: list[Any] = [(ASKED, {}), (further, {})]

    with pytest.raises(InvalidRequest, match=r"refuses every prompt; the first: .*no tools"):
        said(asked_twice, folder, tools=TOOLS)

    (folder / "chat_template.jinja").write_text(refusing.replace("if tools", "if messages[2]"))
    ((text, _),) = said(asked_twice, folder)
    assert "1 prompt cannot be sampled: rows 2" in text
    report = FidelityReport.model_validate(
        json.loads((folder / FIDELITY).read_text())["training_file"]
    )
    assert (report.rows, report.left_out, report.verdict) == (2, 1, "with_findings")
    assert report.samples[0].sequences[0][0].text.endswith("2+2?<|end|>\n<|start|>assistant\n")


def test_tools_of_a_row_which_are_not_offered_are_said(folder: Path) -> None:
    own = {"tools": [{"type": "function", "function": {"name": "f"}}]}

    ((text, _),) = said([(ASKED, {}), (ASKED, own), (ASKED, {"tools": None})], folder)

    assert "1 prompt have tools of their own" in text
    assert "rows 2" in text


@pytest.mark.parametrize(
    ("neutralizes", "level", "words"),
    [(False, "warn", "encoded as such"), (True, "info", "encoded as ordinary text")],
)
def test_special_tokens_in_prompts_are_said(
    folder: Path, neutralizes: bool, level: str, words: str
) -> None:
    prompts: list[Any] = [(ASKED, {}), (FORGED, {})]

    ((text, found),) = said(prompts, folder, neutralizes=neutralizes)

    assert (found, words in text) == (level, True)
    assert "rows 2; of row 2: <|end|>" in text
