"""The report of a training by a named template, or on plain text, tells what the library trains."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.training.fidelity import FidelityReport, FindingCode
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.preparation import layout
from services.trainer.offline.rows.dataset import prepare_data
from services.trainer.offline.tokenizer import load_tokenizer
from tests.integration.offline.test_template_variables import training_spec
from tests.support.chat_templates.families import FAMILIES

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
ROWS: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": "1+1?"},
            {"role": "assistant", "content": "2", "reasoning_content": "One and one."},
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "4"},
        ]
    },
    {
        "messages": [
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            {"role": "assistant", "content": "It is 3."},
        ],
        "tools": [TOOL],
    },
]


def report(tmp_path: Path, given: list[dict[str, Any]], **spec: Any) -> FidelityReport:
    folder = FAMILIES["qwen2_5"].write(tmp_path)
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in given))
    asked = training_spec(folder, training_data={"path": str(file)}, **spec)
    chosen = layout(asked, load_tokenizer(folder))
    (found,) = prepare_data(asked, chosen, tmp_path / "data", lambda _: None).fidelity.values()
    return found


@pytest.mark.parametrize("template", ["qwen", "llama3", "mistral", "gemma", "alpaca"])
def test_a_named_template_is_reported_in_the_text_that_is_trained(
    tmp_path: Path, template: str
) -> None:
    found = report(tmp_path, ROWS[:1], template=template, max_lossy_share=1.0)

    (sample,) = found.samples
    texts = [each.text for each in sample.sequences[0]]
    trained = "".join(each.text for each in sample.sequences[0] if each.trained)
    assert found.rows == 1
    assert "One and one." in trained
    assert "4" in trained
    assert "1+1?" not in trained
    assert "".join(texts).index("1+1?") < "".join(texts).index("2+2?")
    assert FindingCode.LOST not in {each.code for each in found.findings}


def test_the_report_has_the_ids_of_the_library(tmp_path: Path) -> None:
    folder = FAMILIES["qwen2_5"].write(tmp_path)
    tokenizer = load_tokenizer(folder)
    shown = layout(training_spec(folder, template="qwen"), tokenizer).shown
    assert shown is not None
    assert shown.chat_template is not None
    data = llamafactory_module("hparams.data_args").DataArguments(template="qwen")
    library = llamafactory_module("data.template").get_template_and_fix_tokenizer(tokenizer, data)
    turns = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]

    messages = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
    text = shown.chat_template(messages, [], prompt=False)

    prompt, answer = library.encode_oneturn(tokenizer, turns, "", "")
    assert list(shown.encode(text).ids) == [*prompt, *answer]


def test_calls_that_a_named_template_shows_are_not_lost(tmp_path: Path) -> None:
    found = report(tmp_path, ROWS[1:], template="qwen")

    assert found.rows == 1
    assert found.lossy_rows == 0


def test_plain_text_has_a_report(tmp_path: Path) -> None:
    rows = [{"text": "All of it is learned."}, {"text": "So is <|im_end|> this."}]

    found = report(tmp_path, rows, stage="pt")

    assert (found.rows, found.left_out) == (2, 0)
    assert {each.code: each.first_rows for each in found.findings} == {
        FindingCode.CONTROL_TOKENS: [2]
    }
    (text,) = found.samples[0].sequences[0]
    assert text.trained
    assert text.text.startswith("All of it is learned.")
