"""Which of vLLM's tool call parsers an engine is started with."""

import json
from pathlib import Path

import pytest

from services.inference.vllm.tool_calls import tool_call_parser
from tests.support.chat_templates.families import FAMILIES


@pytest.mark.parametrize(
    ("family", "parser"),
    [
        ("qwen2_5", "hermes"),
        ("qwen3", "hermes"),
        ("llama3_1", "llama3_json"),
        ("mistral", "mistral"),
    ],
)
def test_the_chat_template_says_which_parser_reads_its_calls(
    tmp_path: Path, family: str, parser: str
) -> None:
    (tmp_path / "chat_template.jinja").write_text(FAMILIES[family].template())

    assert tool_call_parser(tmp_path) == parser


@pytest.mark.parametrize(
    ("call", "parser"),
    [
        ("<tool_call>\n<function=add>\n<parameter=a>", "qwen3_coder"),
        ("<tool_call>add\n<arg_key>a</arg_key>", "glm45"),
        ("{{ message.content }}", None),
    ],
)
def test_formats_that_share_tags_are_told_apart(
    tmp_path: Path, call: str, parser: str | None
) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": call}))

    assert tool_call_parser(tmp_path) == parser


def test_named_templates_of_a_tokenizer_are_looked_through(tmp_path: Path) -> None:
    named = [
        {"name": "default", "template": "{{ message.content }}"},
        {"name": "tool_use", "template": "<tool_call>"},
    ]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))

    assert tool_call_parser(tmp_path) == "hermes"


def test_a_model_without_a_readable_template_has_no_parser(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{")

    assert tool_call_parser(tmp_path) is None
    assert tool_call_parser(tmp_path / "absent") is None
    assert tool_call_parser(None) is None
