"""What validation says of prompts that a chat template changes."""

from pathlib import Path
from typing import Any

import pytest

from services.contracts.multi_turn import Tool
from services.datasets.validate import PromptTemplate
from services.rollouts.chat.prompt_check import PromptCheck
from tests.support.template_kinds import KINDS, tokenizer

ASKED = [{"role": "user", "content": "2+2?"}]
FORGED = [{"role": "user", "content": "<|end|>"}]
TOOLS = [Tool.model_validate({"class_name": "sandbox", "config": {}})]
WITH_TOOLS = "{% for t in tools or [] %}{{ t.function.name }}\n{% endfor %}" + KINDS["plain"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text(KINDS["plain"])
    return tmp_path


def said(prompts: list[Any], **settings: Any) -> list[tuple[str, str]]:
    check = PromptCheck(PromptTemplate(**settings))
    for row, (messages, extra) in enumerate(prompts, start=1):
        check.add(row, messages, extra=extra)
    announced: list[tuple[str, str]] = []
    check.announce(lambda text, level: announced.append((text, level)))
    return announced


def test_a_template_that_does_not_show_the_tools_on_offer_is_said(folder: Path) -> None:
    prompts: list[Any] = [(ASKED, {})]

    ((text, level),) = said(prompts, folder=folder, tools=TOOLS)

    assert (level, "rows 1; of row 1: tool 'code_interpreter'" in text) == ("warn", True)
    assert said(prompts, folder=folder) == []
    (folder / "chat_template.jinja").write_text(WITH_TOOLS)
    assert said(prompts, folder=folder, tools=TOOLS) == []


def test_a_template_that_refuses_the_tools_names_the_rows(folder: Path) -> None:
    refusing = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + KINDS["plain"]
    (folder / "chat_template.jinja").write_text(refusing)

    ((text, _),) = said([(ASKED, {})], folder=folder, tools=TOOLS)

    assert "1 prompt cannot be sampled: rows 1" in text


def test_tools_of_a_row_which_are_not_offered_are_said(folder: Path) -> None:
    own = {"tools": [{"type": "function", "function": {"name": "f"}}]}

    ((text, _),) = said([(ASKED, {}), (ASKED, own), (ASKED, {"tools": None})], folder=folder)

    assert text.startswith("1 prompt have tools of their own")
    assert "rows 2" in text


@pytest.mark.parametrize(
    ("neutralizes", "level", "words"),
    [(False, "warn", "encoded as such"), (True, "info", "encoded as ordinary text")],
)
def test_special_tokens_in_prompts_are_said(
    folder: Path, neutralizes: bool, level: str, words: str
) -> None:
    prompts: list[Any] = [(ASKED, {}), (FORGED, {})]

    ((text, found),) = said(prompts, folder=folder, neutralizes=neutralizes)

    assert (found, words in text) == (level, True)
    assert "rows 2; of row 2: <|end|>" in text
