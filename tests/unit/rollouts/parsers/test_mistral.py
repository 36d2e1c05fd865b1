"""Calls of Mistral: a list after a token."""

import pytest

from services.rollouts.parsers import ParsedCall, parser_of
from services.rollouts.parsers.json_calls import call_ids

_PARSER = parser_of("mistral")
_TWO = (
    '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}, '
    '{"name": "g", "arguments": {}}]</s>'
)


def test_all_calls_in_the_list_are_parsed() -> None:
    parsed = _PARSER.parse(f"Let me.{_TWO}")

    assert parsed.calls == (ParsedCall("f", {"a": 1}), ParsedCall("g", {}))
    assert parsed.malformed == ()


def test_the_list_behind_every_token_is_read() -> None:
    text = (
        '[TOOL_CALLS] [{"name": "f", "arguments": {"a": "[TOOL_CALLS] ["}, "id": "a"}]'
        '[TOOL_CALLS] nothing[TOOL_CALLS][{"name": "g", "id": "b"}]'
    )
    parsed = _PARSER.parse(text)

    assert parsed.calls == (ParsedCall("f", {"a": "[TOOL_CALLS] ["}), ParsedCall("g", {}))
    assert [found.text for found in parsed.malformed] == ["[TOOL_CALLS] nothing"]
    assert list(call_ids(text)) == ["a", "b"]


def test_a_list_without_the_token_is_an_answer() -> None:
    parsed = _PARSER.parse(_TWO.removeprefix("[TOOL_CALLS]"))

    assert (parsed.calls, parsed.malformed) == ((), ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[TOOL_CALLS] [{"name": "f"', "is not valid JSON"),
        ('[TOOL_CALLS]{"name": "f"}', "is an object, not a list of calls"),
        ("[TOOL_CALLS]", "is not valid JSON"),
    ],
)
def test_a_non_list_is_malformed(text: str, reason: str) -> None:
    parsed = _PARSER.parse(text)

    assert parsed.calls == ()
    assert reason in parsed.malformed[0].reason


def test_an_invalid_element_is_recorded_and_valid_calls_are_kept() -> None:
    parsed = _PARSER.parse('[TOOL_CALLS] [7, {"name": "g"}, {}]')

    assert parsed.calls == (ParsedCall("g", {}),)
    assert [found.reason for found in parsed.malformed] == [
        "is 7, not an object with name and arguments",
        "name is missing",
    ]


def test_ids_match_the_parsed_calls() -> None:
    assert list(call_ids(_TWO)) == ["abcdefghi", None]
    assert list(call_ids('[TOOL_CALLS] [7, {"name": "g", "id": "x"}]')) == ["x"]
    assert list(call_ids("no call")) == []
