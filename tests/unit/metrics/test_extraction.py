"""Predictions are found in the text of a model, whatever surrounds them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.metrics.extraction import (
    ExtractionOutcome,
    at_path,
    extract_all,
    extract_json,
    has_path,
    strip_reasoning,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
CONTAINERS = st.lists(VALUES) | st.dictionaries(st.text(), VALUES)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("42", "42"),
        ("<think>5?</think>\n42", "\n42"),
        ("<think>a</think>b</think>c", "c"),
        ("opened in the prompt</think>42", "42"),
        ("[THINK]x[/THINK]42", "42"),
        ("<think>never ends", ""),
        ("[THINK]5, as <answer>5</answer>", ""),
        ("<think>a</think>b\n<think>c, cut off", "b\n"),
        ("the tag <think> in a line", "the tag <think> in a line"),
        ("the tags `<think>`, '<think>' and \"<think>\"", None),
        ("5. It opens with <think>.", None),
        ("Sure. <think>maybe \\boxed{5}, wait", "Sure."),
        ("Sure: <think> maybe 5", "Sure:"),
        ("Okay <think>maybe 5", "Okay "),
        ("Okay <think>\nmaybe 5", "Okay "),
        ("<think>a</think>b. <think>c, cut off", "b."),
        ("OK, so <think>maybe 5", "OK, so "),
        ("In HTML, write <think>text here. The answer is B", None),
        ("Put the thoughts within a <think>\ntag. It is B", None),
        ("Tags such as <b>, <think> and so on", None),
        ("**<think>** opens it", None),
        ("The <think>\nB", None),
    ],
)
def test_reasoning_is_stripped_up_to_its_last_end(text: str, answer: str | None) -> None:
    assert strip_reasoning(text) == (text if answer is None else answer)


def test_reasoning_tags_can_be_chosen() -> None:
    assert strip_reasoning("a</reason>b</think>c", ["</reason>"]) == "b</think>c"
    assert strip_reasoning("<reason>a", ["</reason>"]) == ""
    assert strip_reasoning("a ### b", ["###"]) == " b"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('so: {"a": 1} or rather {"b": 2}.', {"b": 2}),
        ('{"a": 1}</think>{"b": 2}', {"b": 2}),
        ('```json\n{"a": 1}\n```\n```\n{"b": 2}\n```', {"a": 1}),
        ('```json\n{"a": 1}\n```\n```json\n{"b": 2}\n```\n{"c": 3}', {"b": 2}),
        ("```\n[1]\n```\ntext\n```python\n[2]\n```", [2]),
        ('```JSON\n"text"\n```', "text"),
        ('a "quote" before {"a": "} and \\" ]"} after', {"a": '} and " ]'}),
        ("an open [ and an open { first, then [1, 2]", [1, 2]),
        ('first {"a": 1}, then a stray ] and {x}', {"a": 1}),
        ('[1, [2, {"a": [3]}]]', [1, [2, {"a": [3]}]]),
    ],
)
def test_the_stated_value_is_found(text: str, value: object) -> None:
    found = extract_json(text)
    assert (found.outcome, found.value) == (ExtractionOutcome.PARSED, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"label": 1} See [1].', {"label": 1}),
        ('{"label": 1} or {"label": 2}, not {"other": 3} [4]', {"label": 2}),
        ('```json\n{"label": 1}\n```\n```json\n{"n": 2}\n```', {"label": 1}),
        ('```json\n{"n": 2}\n```\nso {"label": 1}', {"label": 1}),
        ('{"n": {"label": 1}} and [3]', [3]),
        ("{x} [3]", [3]),
    ],
)
def test_the_last_value_with_the_path_counts(text: str, value: object) -> None:
    assert extract_json(text, fits=has_path("label")).value == value


@pytest.mark.parametrize("text", ["", "no call", "42", '"text"', "an open [", "a stray }"])
def test_a_text_without_json_is_told(text: str) -> None:
    assert extract_json(text).outcome is ExtractionOutcome.NO_JSON


@pytest.mark.parametrize(
    "text",
    [
        "{a: 1}",
        "```json\n{\n```\n[1]",
        "```\nx\n```",
        "[" * 9999 + "]" * 9999,
        "[NaN]",
        "[1e999]",
        r'{"a": "\ud800"}',
        '["\ud800"]',
    ],
)
def test_a_text_with_broken_json_is_told(text: str) -> None:
    assert extract_json(text).outcome is ExtractionOutcome.INVALID_JSON


@given(CONTAINERS, st.text(alphabet=st.characters(exclude_characters="`[]{}</>")))
def test_any_value_is_found_behind_any_prose(value: object, prose: str) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert extract_json(f"{prose}\n{text}\n").value == value
        assert extract_json(f"{prose}\n```json\n{text}\n```\n{prose}").value == value


@given(st.text() | st.text(alphabet='[]{}"\\`\n a1:,'))
def test_any_text_has_an_outcome(text: str) -> None:
    assert extract_json(text).outcome in ExtractionOutcome


def test_a_path_leads_to_a_field() -> None:
    value = {"answer": [{"label": 7}]}
    assert at_path(value, "answer.0.label") == 7
    assert at_path(value, "") is value
    for path in ("question", "answer.1", "answer.label", "answer.0.label.x"):
        with pytest.raises(LookupError):
            at_path(value, path)


def is_call(value: object) -> bool:
    return isinstance(value, dict) and "call" in value


def tag(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (tag('{"call": 1}') + "\n" + tag('{"call": 2}'), [1, 2]),
        (tag('{"call": 1}') + '\n<tool_call>{"call": 2}', [1, 2]),
        (tag('{"call": 1}') + ' as {"call": 2}', [1]),
        ('```json\n{"call": 1}\n```\nand\n```\n{"call": 2}\n```\n{"call": 3}', [1, 2]),
        ('```json\n{"call": 1}\n```\n```json\n{"call": 2}', [1, 2]),
        ('{"call": 1}; {"call": 2}\n{"n": 3} [4]', [1, 2]),
        (f'<think>{tag(json.dumps({"call": 0}))}</think>{{"call": 1}}', [1]),
        ('<tool_call> is a tag. {"call": 1}', [1]),
        (tag('{"call": 1}') + tag("{broken"), None),
        (tag('{"n": 1}') + tag('{"call": 1}'), None),
        ('{"n": 1}', None),
        ("none", None),
    ],
)
def test_all_values_of_the_most_explicit_form_are_found(text: str, calls: list[int] | None) -> None:
    found = extract_all(text, is_call, lambda _: False)
    assert (found.outcome is ExtractionOutcome.PARSED) == (calls is not None)
    assert [each["call"] for each in found.value or ()] == (calls or [])


FORMS = {
    "tags": lambda written: tag(written) + "\n",
    "fences": lambda written: f"```json\n{written}\n```\n",
    "lines": lambda written: f"{written}\n",
}


@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from(sorted(FORMS)), st.booleans())
def test_as_many_values_are_found_as_are_stated(
    values: list[object], form: str, is_drafted: bool
) -> None:
    stated = [{"call": value} for value in values]
    text = "".join(FORMS[form](json.dumps(each)) for each in stated)
    draft = f"<think>{text}</think>" if is_drafted else ""
    assert extract_all(f"{draft}So:\n{text}", is_call, lambda _: False).value == stated


@given(st.lists(VALUES, min_size=1, max_size=3), st.sampled_from(["fences", "lines"]))
def test_a_whole_list_that_is_stated_again_counts_once(values: list[object], form: str) -> None:
    stated = [{"call": value} for value in values]
    plan, answer = (f"{word}:\n{FORMS[form](json.dumps(stated))}" for word in ("Plan", "So"))
    found = extract_all(plan + answer, lambda value: isinstance(value, list), lambda _: True)
    assert found.value == [stated]
    again = extract_all(plan + answer, lambda value: isinstance(value, list), lambda _: False)
    assert again.value == [stated, stated]
    twice = "".join(map(tag, [json.dumps(stated)] * 2))
    assert extract_all(twice, lambda value: isinstance(value, list), lambda _: True).value == [
        stated,
        stated,
    ]
