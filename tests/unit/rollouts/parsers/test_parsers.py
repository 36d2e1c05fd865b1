"""Properties of all parsers, for any model output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import InvalidRequest
from services.rollouts.parsers import PARSERS, parser_of
from services.rollouts.parsers.base import MAX_CALLS

_ONE_CALL = {
    "hermes": '<tool_call>{"name": "f"}</tool_call>',
    "qwen3-coder": "<function=f></function>",
    "llama3-json": '{"name": "f", "parameters": {}}',
}
_PIECES = (
    "<tool_call>",
    "</tool_call>",
    "<function=f>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|python_start|>",
    '{"name": ',
    '"f"',
    ', "arguments": ',
    ', "parameters": ',
    "{}",
    "}",
    "[f(",
    "a=1",
    ")]",
    "[",
    "\\",
    '"',
    "x",
    "\n",
    "\0",
    "\ud800",
    "🙂",
)


@given(
    st.sampled_from(sorted(PARSERS)), st.lists(st.sampled_from(_PIECES), max_size=30).map("".join)
)
def test_any_text_parses_and_malformed_calls_keep_their_text(name: str, text: str) -> None:
    parsed = PARSERS[name].parse(text)

    assert all(call.name for call in parsed.calls)
    assert all(found.reason and found.text in text for found in parsed.malformed)


@pytest.mark.parametrize("name", sorted(_ONE_CALL))
def test_calls_beyond_the_limit_are_reported_as_unread(name: str) -> None:
    parsed = PARSERS[name].parse(f"{_ONE_CALL[name]}\n" * 1_000)

    assert len(parsed.calls) == MAX_CALLS
    assert [found.reason for found in parsed.malformed] == [
        f"a turn has at most {MAX_CALLS} calls; the rest is not read"
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", sorted(PARSERS))
@pytest.mark.parametrize("piece", [piece for piece in _PIECES if piece != "\ud800"])
def test_a_long_turn_yields_bounded_records(name: str, piece: str) -> None:
    """Quadratic time would exceed the test's time limit."""
    begin = {"mistral": "[TOOL_CALLS]", "pythonic": "[f(a="}.get(name, "")

    parsed = PARSERS[name].parse(begin + piece * (2_000_000 // len(piece)) + "]")

    assert len(parsed.calls) + len(parsed.malformed) <= MAX_CALLS + 1
    assert all(len(found.text) <= 500 for found in parsed.malformed)


def test_parser_names_may_use_underscores() -> None:
    assert parser_of("qwen3_coder") is PARSERS["qwen3-coder"]
    assert parser_of("Llama3_JSON") is PARSERS["llama3-json"]


def test_an_unknown_parser_is_refused_naming_the_field() -> None:
    with pytest.raises(InvalidRequest, match="'yaml' is unknown; known are hermes") as raised:
        parser_of("yaml")

    assert raised.value.param == "multi_turn.tool_parser_format"
