"""Calls of Llama 3.1 and later: JSON objects, marked or not."""

import pytest

from services.rollouts.parsers import ParsedCall, parser_of

_PARSER = parser_of("llama3-json")
_CALL = '{"name": "search", "parameters": {"q": "a"}}'
_SEARCH = ParsedCall("search", {"q": "a"})


@pytest.mark.parametrize(
    "text",
    [
        f"{_CALL}<|eom_id|>",
        f"<|python_tag|>{_CALL}<|eom_id|>",
        f"Let me look.\n\n{_CALL}<|eot_id|>",
        '{\n  "type": "function", "name": "search", "parameters": {"q": "a"}}',
        '{"function": "x", "name": "search", "arguments": {"q": "a"}}',
    ],
)
def test_a_single_call_is_parsed_anywhere(text: str) -> None:
    parsed = _PARSER.parse(text)

    assert parsed.calls == (_SEARCH,)
    assert parsed.malformed == ()


@pytest.mark.parametrize("between", ["; ", ";", "\n", ", ", " and then "])
def test_several_calls_are_parsed_in_order(between: str) -> None:
    parsed = _PARSER.parse(f'{_CALL}{between}{{"name": "now", "parameters": {{}}}}')

    assert parsed.calls == (_SEARCH, ParsedCall("now", {}))


def test_an_object_inside_a_call_is_not_a_call() -> None:
    parsed = _PARSER.parse(f'{{"name": "run", "parameters": {{"call": {_CALL}}}}}')

    assert [call.name for call in parsed.calls] == ["run"]


@pytest.mark.parametrize(
    "answer", ['{"name": "Ada", "age": 36}', '{"answer": 4}', "It is {4}.", "{{{", ""]
)
def test_a_plain_answer_is_not_a_call(answer: str) -> None:
    parsed = _PARSER.parse(answer)

    assert (parsed.calls, parsed.malformed) == ((), ())


def test_a_malformed_call_is_recorded_and_valid_calls_are_kept() -> None:
    parsed = _PARSER.parse(f'{{"name": "a", "parameters": {{oops}}}}; {_CALL}')

    assert parsed.calls == (_SEARCH,)
    assert [found.text for found in parsed.malformed] == ['{"name": "a", "parameters": {oops}}; ']


@pytest.mark.parametrize(
    "text", ["<|python_tag|>print(1)<|eom_id|>", '<|python_tag|>brave_search.call(query="a")']
)
def test_a_marked_call_in_another_format_is_malformed(text: str) -> None:
    parsed = _PARSER.parse(text)

    assert parsed.calls == ()
    assert parsed.malformed[0].reason == "is not a JSON object with name and parameters"
