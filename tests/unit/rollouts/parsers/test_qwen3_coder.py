"""Calls of Qwen3-Coder: tags around bare text, typed by the tool's schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rollouts.parsers import ParsedCall, parser_of

_PARSER = parser_of("qwen3-coder")


def written(name: str, **arguments: str) -> str:
    """A call in the model's own notation."""
    parameters = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def tools(**properties: Any) -> list[dict[str, Any]]:
    """The schema of a tool ``f`` with these arguments."""
    parameters = {"type": "object", "properties": properties}
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def test_calls_are_parsed_in_order() -> None:
    code = "if a < b:\n\n    print('x')\n"

    parsed = _PARSER.parse(f"Let me.\n{written('f', code=code)}\n{written('g')}<|im_end|>")

    assert parsed.calls == (ParsedCall("f", {"code": code}), ParsedCall("g", {}))
    assert parsed.malformed == ()


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "12", "12"),
        ({}, "12", "12"),
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, "1.5", "1.5"),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "2", 2),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "1", "1"),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "object"}, '{"a": null}', {"a": None}),
        ({"type": "object"}, "{a}", "{a}"),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", "x"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
        ({"type": "integer"}, "9" * 5_000, "9" * 5_000),
    ],
)
def test_a_value_has_its_schema_type(schema: dict[str, Any], text: str, value: object) -> None:
    (call,) = _PARSER.parse(written("f", a=text), tools(a=schema)).calls

    assert call.arguments == {"a": value}
    assert type((call.arguments or {})["a"]) is type(value)


@pytest.mark.parametrize("schemas", [[], [{}], [{"function": None}], tools(a="text"), tools(b={})])
def test_values_without_a_usable_schema_stay_text(schemas: list[dict[str, Any]]) -> None:
    assert _PARSER.parse(written("f", a="1"), schemas).calls == (ParsedCall("f", {"a": "1"}),)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("<function=>\n</function>", "no function name"),
        ("<function=f", "no function name"),
        ("<function=f>\n<parameter=a>\n1\n", "parameter 'a' is not closed"),
        ("<function=f>\nwords\n</function>", "where one is expected"),
        ("<function=f>\n<parameter=a>\n1\n</parameter>\n", "where one is expected"),
    ],
)
def test_a_malformed_call_is_recorded_and_valid_calls_are_kept(bad: str, reason: str) -> None:
    parsed = _PARSER.parse(written("g") + bad)

    assert parsed.calls == (ParsedCall("g", {}),)
    assert [found.text for found in parsed.malformed] == [bad]
    assert reason in parsed.malformed[0].reason


def test_a_call_after_a_malformed_one_is_parsed() -> None:
    parsed = _PARSER.parse("<function=f>\nwords " + written("g"))

    assert parsed.calls == (ParsedCall("g", {}),)
    assert len(parsed.malformed) == 1


def test_a_call_inside_a_value_is_not_parsed_even_if_the_outer_call_is_malformed() -> None:
    parsed = _PARSER.parse(f"<function=f><parameter=a>{written('g')}</parameter> words")

    assert parsed.calls == ()
    assert len(parsed.malformed) == 1


_TEXTS = st.text(st.characters(exclude_categories=["Cs"])).filter(
    lambda text: "</parameter>" not in text
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), _TEXTS, max_size=4))
def test_any_texts_round_trip(arguments: dict[str, str]) -> None:
    parsed = _PARSER.parse(written("f", **arguments))

    assert parsed.calls == (ParsedCall("f", arguments),)


@pytest.mark.parametrize(
    "turn",
    [
        "<function=f>\n<parameter=a>\n1\n<parameter=b>\nx\n</parameter>\n</function>",
        "<function=f>\n<parameter=a>\n1\n<parameter=b>\nx\n</function>",
        "<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</function>",
    ],
)
def test_a_missing_closing_tag_is_tolerated(turn: str) -> None:
    known = tools(a={"type": "integer"}, b={"type": "string"})
    call = ParsedCall("f", {"a": 1, "b": "x"})

    parsed = _PARSER.parse(turn, known)
    assert (parsed.calls, parsed.malformed) == ((call,), ())
    twice = _PARSER.parse(f"{turn}\n{written('f', a='2', b='y')}", known)
    assert twice.calls == (call, ParsedCall("f", {"a": 2, "b": "y"}))


def test_a_value_may_contain_parameter_tags() -> None:
    code = "print(1)\n<parameter=c>\n2"
    parsed = _PARSER.parse(written("f", a=code), tools(a={"type": "string"}, b={}))
    assert parsed.calls == (ParsedCall("f", {"a": code}),)
