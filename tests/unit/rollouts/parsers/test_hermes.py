"""Calls of Hermes and Qwen: JSON between tags."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rollouts.parsers import ParsedCall, parser_of

_PARSER = parser_of("hermes")
_GOOD = '<tool_call>\n{"name": "search", "arguments": {"q": "a"}}\n</tool_call>'
_SEARCH = ParsedCall("search", {"q": "a"})


def test_calls_are_parsed_in_order_among_other_text() -> None:
    text = f'Let me look.\n{_GOOD}\nand\n<tool_call>{{"name":"now"}}</tool_call><|im_end|>'

    parsed = _PARSER.parse(text)

    assert parsed.calls == (_SEARCH, ParsedCall("now", {}))
    assert parsed.malformed == ()


def test_text_without_tags_has_no_calls() -> None:
    parsed = _PARSER.parse('{"name": "search", "arguments": {}} is how a call looks')

    assert (parsed.calls, parsed.malformed) == ((), ())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("<tool_call>{name: search}</tool_call>", "is not valid JSON"),
        ("<tool_call></tool_call>", "is not valid JSON"),
        ('<tool_call>["search"]</tool_call>', "is a list, not an object"),
        ('<tool_call>{"arguments": {}}</tool_call>', "name is missing"),
        ('<tool_call>{"name": 7}</tool_call>', "name is 7"),
        ('<tool_call>{"name": ""}</tool_call>', "name is ''"),
        ('<tool_call>{"name": "a"} {"name": "b"}</tool_call>', "is not followed by </tool_call>"),
        ('<tool_call>{"name": "a", "arguments": {"n": NaN}}</tool_call>', "NaN"),
        ('<tool_call>{"name": "a", "arguments": {"n": 1e999}}</tool_call>', "too large"),
        ('<tool_call>{"name": "a", "arguments": {"n": "\\ud800"}}</tool_call>', "surrogate"),
        ('<tool_call>{"name": "a", "name": "b"}</tool_call>', "twice"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "nested"),
        ("<tool_call>" + "9" * 10_000 + "</tool_call>", "too many digits"),
    ],
)
def test_a_malformed_call_is_recorded_and_valid_calls_are_kept(bad: str, reason: str) -> None:
    parsed = _PARSER.parse(f"{_GOOD}{bad}{_GOOD}")

    assert parsed.calls == (_SEARCH, _SEARCH)
    assert len(parsed.malformed) == 1
    assert reason in parsed.malformed[0].reason
    assert bad.startswith(parsed.malformed[0].text)


def test_an_unterminated_call_is_malformed() -> None:
    for end in range(len("<tool_call>"), len(_GOOD)):
        parsed = _PARSER.parse(_GOOD[:end])
        assert parsed.calls == ()
        assert [found.text for found in parsed.malformed] == [_GOOD[:end]]


def test_a_malformed_call_does_not_hide_the_next_one() -> None:
    parsed = _PARSER.parse('<tool_call>{"name": "a", ' + _GOOD)

    assert parsed.calls == (_SEARCH,)
    assert parsed.malformed[0].text == '<tool_call>{"name": "a", '


def test_tags_within_an_argument_are_text() -> None:
    code = "print('</tool_call><tool_call>')"
    body = json.dumps({"name": "python", "arguments": {"code": code}})

    parsed = _PARSER.parse(f"<tool_call>{body}</tool_call>")

    assert parsed.calls == (ParsedCall("python", {"code": code}),)
    assert parsed.malformed == ()


@pytest.mark.parametrize("written", ['"oops"', "[1]", "3", '"[1]"'])
def test_non_object_arguments_become_none(written: str) -> None:
    parsed = _PARSER.parse(f'<tool_call>{{"name": "a", "arguments": {written}}}</tool_call>')

    assert parsed.calls == (ParsedCall("a", None),)


def test_arguments_encoded_as_json_text_are_parsed() -> None:
    body = json.dumps({"name": "a", "arguments": json.dumps({"x": 1})})

    assert _PARSER.parse(f"<tool_call>{body}</tool_call>").calls == (ParsedCall("a", {"x": 1}),)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "</tool_call>"]), _VALUES), max_size=4))
def test_any_arguments_round_trip(every: list[dict[str, object]]) -> None:
    bodies = [json.dumps({"name": "f", "arguments": arguments}) for arguments in every]

    parsed = _PARSER.parse("\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies))

    assert [call.arguments for call in parsed.calls] == every
    assert parsed.malformed == ()
