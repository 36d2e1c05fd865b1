"""The files a model folder needs, and the errors when they are missing."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.rollouts.chat import open_chat_tokens
from tests.support.chat_templates.conversation import QUESTION, TOOLS
from tests.support.chat_templates.families import FAMILIES

_ECHO = "{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder of the Qwen2.5 family."""
    return FAMILIES["qwen2_5"].write(tmp_path)


def change(path: Path, **values: object) -> None:
    """Set keys of a JSON file; null removes one."""
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def prompt_text(folder: Path, tools: list[dict[str, object]] | None = None) -> str:
    chat = open_chat_tokens(folder)
    return chat.text(chat.prompt([QUESTION], tools or []))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("tokenizer.json", "{}", "tokenizer.json cannot be used"),
        ("tokenizer.json", "\x00", "tokenizer.json cannot be used"),
        ("chat_template.jinja", None, "has no chat template"),
        ("chat_template.jinja", "{% if %}", "not valid Jinja"),
        ("tokenizer_config.json", "[]", "tokenizer_config.json is not a JSON object"),
        ("generation_config.json", "{", "generation_config.json is not valid JSON"),
    ],
)
def test_a_model_without_chat_support_is_refused_naming_the_file(
    folder: Path, name: str, content: str | None, reason: str
) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)

    with pytest.raises(InvalidRequest, match=reason) as raised:
        open_chat_tokens(folder)

    assert raised.value.param == "model"


def test_a_template_in_the_tokenizer_configuration_is_used(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    change(folder / "tokenizer_config.json", chat_template=_ECHO)

    assert prompt_text(folder) == QUESTION["content"]


def test_the_tool_use_template_is_used_with_tools(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    templates = [
        {"name": "default", "template": _ECHO},
        {"name": "tool_use", "template": FAMILIES["qwen2_5"].template()},
    ]
    change(folder / "tokenizer_config.json", chat_template=templates)

    assert prompt_text(folder) == QUESTION["content"]
    assert prompt_text(folder, TOOLS).startswith("<|im_start|>system\n")


def test_special_tokens_are_read_from_both_files(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ eos_token }}" + _ECHO)
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"bos_token": {"content": "<|endoftext|>"}, "eos_token": "<|endoftext|>"})
    )

    assert prompt_text(folder) == f"<|endoftext|><|im_end|>{QUESTION['content']}"


def test_end_tokens_of_configurations_and_template_are_combined(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    change(folder / "tokenizer_config.json", eos_token=None)
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 7}))

    chat = open_chat_tokens(folder)

    assert [chat.text([token]) for token in chat.stop_token_ids[:1]] == ["<|im_end|>"]
    assert chat.stop_token_ids[1:] == (7,)


def test_tokenizer_truncation_settings_are_ignored(folder: Path) -> None:
    change(
        folder / "tokenizer.json",
        truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
    )

    assert QUESTION["content"] in prompt_text(folder)
