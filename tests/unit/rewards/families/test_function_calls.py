"""Calls of functions: hand-made answers to rows in the leaderboard's published schema."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.evaluator.evaluation.samples import parse_sample
from services.rewards.function_calls.answers import calls_of
from services.rewards.function_calls.rows import read_question
from services.rewards.interface import Score
from tests.support.evaluation.benchmark_scores import benchmark_scores

AREA = {
    "name": "triangle.area",
    "description": "The area of a triangle.",
    "parameters": {
        "type": "dict",
        "properties": {
            "base": {"type": "integer"},
            "height": {"type": "float"},
            "unit": {"type": "string"},
        },
        "required": ["base", "height"],
    },
}
TRIP = {
    "name": "plan",
    "parameters": {
        "type": "dict",
        "properties": {
            "stops": {"type": "array", "items": {"type": "string"}},
            "about": {"type": "dict"},
            "is_open": {"type": "boolean"},
        },
        "required": ["stops"],
    },
}
ALLOWED_AREA = {"triangle.area": {"base": [10], "height": [5.5, 6.0], "unit": ["sq. cm", ""]}}
ALLOWED_TRIP = {
    "plan": {
        "stops": [["Lima", "La Paz"]],
        "about": [{"days": [3, 4], "hotel": ["Inca", ""]}, ""],
        "is_open": [True, ""],
    }
}


def row(category: str, *allowed: dict[str, Any]) -> dict[str, Any]:
    asked = {
        "id": f"{category}_3",
        "question": [[{"role": "user", "content": "The area, please."}]],
        "function": [AREA, TRIP],
    }
    return {**asked, "ground_truth": list(allowed)} if allowed else asked


def scores(category: str, *asked: tuple[dict[str, Any], str]) -> list[Score]:
    return benchmark_scores(f"bfcl_{category}", *asked)


def grades(allowed: dict[str, Any], *answers: str) -> list[float]:
    asked = row("simple", allowed)
    return [each.value for each in scores("simple", *((asked, answer) for answer in answers))]


def test_the_question_has_the_functions_and_the_texts_of_the_messages() -> None:
    data = row("simple", ALLOWED_AREA)
    data["question"][0].insert(0, {"role": "system", "content": "Be brief."})
    item = parse_sample(data, 0, None, BENCHMARKS["bfcl_simple"])
    (message,) = item.messages
    assert "Be brief.\n\nThe area, please." in message["content"]
    assert '"name": "triangle.area"' in message["content"]


@pytest.mark.parametrize(
    "answer",
    [
        "[triangle.area(base=10, height=5.5)]",
        "<think>[]</think>\n```python\ntriangle.area(base=10, height=6, unit='SQ-CM')\n```",
        '[{"name": "triangle.area", "arguments": {"base": 10, "height": 5.5}}]',
        'Here: {"triangle.area": {"base": 10, "height": 6.0, "unit": "sq cm"}}',
    ],
)
def test_a_call_may_be_written_in_several_ways(answer: str) -> None:
    (found,) = scores("simple", (row("simple", ALLOWED_AREA), answer))
    assert (found.value, found.group, found.measures) == (1.0, "simple", {"accuracy": 1.0})
    assert found.extracted is not None
    assert json.loads(found.extracted)[0]["name"] == "triangle.area"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("base=11, height=5.5", "another value"),
        ("base=10", "a required parameter is missing"),
        ("base=10, height=5.5, color='red'", "an unknown parameter"),
        ("base=10.0, height=5.5", "a float is not an integer"),
        ("base='10', height=5.5", "a text is not an integer"),
        ("base=True, height=5.5", "a boolean is not an integer"),
        ("base=10, height=5.5, unit='m'", "another value of an optional parameter"),
    ],
)
def test_wrong_arguments_are_wrong(arguments: str, why: str) -> None:
    assert grades(ALLOWED_AREA, f"[triangle.area({arguments})]") == [0.0], why


def test_lists_and_objects_are_compared_by_their_parts() -> None:
    right = [
        "plan(stops=['lima', 'La-Paz'])",
        "plan(stops=('Lima', 'La Paz'), about={'days': 4}, is_open=True)",
        "plan(stops=['Lima', 'La Paz'], about={'days': 3, 'hotel': 'inca'})",
    ]
    wrong = [
        "plan(stops=['La Paz', 'Lima'])",
        "plan(stops=['Lima'])",
        "plan(stops=['Lima', 'La Paz'], about={'days': 5})",
        "plan(stops=['Lima', 'La Paz'], about={'hotel': 'Inca'})",
        "plan(stops=['Lima', 'La Paz'], about={'days': 3, 'pool': True})",
        "plan(stops=['Lima', 'La Paz'], is_open=1)",
    ]
    assert grades(ALLOWED_TRIP, *right, *wrong) == [1.0] * len(right) + [0.0] * len(wrong)


def test_a_parameter_that_the_schema_lacks_is_wrong() -> None:
    allowed = {"triangle.area": {"base": [10], "height": [5.5], "color": ["red", ""]}}
    calls = [
        "triangle.area(base=10, height=5.5)",
        "triangle.area(base=10, height=5.5, color='red')",
    ]
    assert grades(allowed, *calls) == [1.0, 0.0]


def test_a_matched_call_is_not_taken_for_another_that_equals_it() -> None:
    schema = {"type": "dict", "properties": {"x": {"type": "any"}}, "required": ["x"]}
    asked = row("parallel", {"f": {"x": [1]}}, {"f": {"x": [True]}})
    asked["function"] = [{"name": "f", "parameters": schema}]
    (found,) = scores("parallel", (asked, "[f(x=True), f(x=1)]"))
    assert found.value == 1.0


def list_grades(schema: dict[str, Any], allowed: list[Any], *values: str) -> list[float]:
    """The grades of calls with a list as their only argument."""
    parameters = {"type": "dict", "properties": {"items": schema}, "required": []}
    asked = row("simple", {"f": {"items": allowed}})
    asked["function"] = [{"name": "f", "parameters": parameters}]
    return [each.value for each in scores("simple", *((asked, f"f(items={v})") for v in values))]


@pytest.mark.parametrize(
    ("items", "allowed", "right", "wrong"),
    [
        ("integer", [[1, 2]], ["[1, 2]", "(1, 2)"], ["[1.0, 2.0]", "[1, 2.0]", "['1', '2']"]),
        ("integer", [[1, 2]], [], ["[True, 2]", "[1]", "[2, 1]", "[]"]),
        ("float", [[1.0, 2.5]], ["[1.0, 2.5]"], ["[1, 2.5]"]),
        ("string", [["a b", "c"]], ["['A-B', 'c']"], ["[1, 'c']", "'a b'"]),
        ("boolean", [[True, False]], ["[True, False]"], ["[1, 0]", "['True', 'False']"]),
        ("dict", [[{"x": [1, 2]}]], ["[{'x': 2}]"], ["[{'x': 3}]", "[['x']]", "[{}]"]),
        ("array", [[[1], [2, 3]]], ["[[1], [2, 3]]"], ["[1, [2, 3]]", "[[1], [3, 2]]"]),
    ],
)
def test_items_of_a_list_have_the_type_of_their_schema(
    items: str, allowed: list[Any], right: list[str], wrong: list[str]
) -> None:
    for kind in ("array", "tuple"):
        schema = {"type": kind, "items": {"type": items}}
        found = list_grades(schema, allowed, *right, *wrong)
        assert found == [1.0] * len(right) + [0.0] * len(wrong)


def test_items_may_have_the_type_of_the_first_allowed_item() -> None:
    """Variables stand as texts among the allowed values, whatever the schema says."""
    schema = {"type": "array", "items": {"type": "float"}}
    assert list_grades(schema, [["x", "y"]], "['x', 'y']", "[1.0, 2.0]") == [1.0, 0.0]
    assert list_grades(schema, [[1, 2]], "[1, 2]", "[1.0, 2.0]") == [1.0, 1.0]
    assert list_grades(schema, [[5.5], [1, 2]], "[1, 2]", "[5.5]") == [1.0, 1.0]


def test_a_list_that_may_be_left_out_has_items_of_any_type() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert list_grades(schema, [[1, 2], ""], "[1, 2]", "[1.0, 2.0]", "[1, 3]") == [1.0, 1.0, 0.0]


def test_items_without_a_known_type_are_compared_by_value_alone() -> None:
    for schema in ({"type": "array"}, {"type": "array", "items": {"type": "any"}}):
        assert list_grades(schema, [[1, "a"]], "[1, 'a']", "[1.0, 'a']", "[2, 'a']") == [1, 1, 0]


def test_parallel_calls_match_in_any_order_and_as_often() -> None:
    other = {"triangle.area": {"base": [3], "height": [4]}}
    asked = row("parallel", ALLOWED_AREA, other)
    first, second = "triangle.area(base=10, height=6.0)", "triangle.area(base=3, height=4)"
    found = scores(
        "parallel",
        (asked, f"[{first}, {second}]"),
        (asked, f"[{second}, {first}]"),
        (asked, f"[{first}]"),
        (asked, f"[{first}, {first}]"),
        (asked, f"[{first}, {second}, {second}]"),
    )
    assert [each.value for each in found] == [1.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda calls: "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in calls),
        lambda calls: "\n".join(f"```json\n{each}\n```" for each in calls),
        "; ".join,
    ],
)
def test_all_calls_of_an_answer_count(write: Callable[[list[str]], str]) -> None:
    area = json.dumps({"name": "triangle.area", "arguments": {"base": 10, "height": 6.0}})
    trip = json.dumps({"name": "plan", "arguments": {"stops": ["Lima", "La Paz"]}})
    simple, parallel = row("simple", ALLOWED_AREA), row("parallel", ALLOWED_AREA, ALLOWED_TRIP)
    drafted = f"<think>{trip}</think>{write([area])}"
    found = scores(
        "simple", (simple, write([area])), (simple, write([trip, area])), (simple, drafted)
    )
    assert [each.value for each in found] == [1.0, 0.0, 1.0]
    both = scores("parallel", (parallel, write([area, trip])), (parallel, write([area])))
    assert [each.value for each in both] == [1.0, 0.0]


def test_a_tag_without_a_call_is_not_left_out() -> None:
    area = (
        '<tool_call>{"name": "triangle.area", "arguments": {"base": 10, "height": 6}}</tool_call>'
    )
    assert grades(ALLOWED_AREA, area, f"<tool_call>{{plan</tool_call>{area}") == [1.0, 0.0]


def test_equal_calls_vote_together() -> None:
    asked = row("parallel", ALLOWED_AREA, ALLOWED_TRIP)
    area, trip = "triangle.area(base=10, height=6)", "plan(stops=['Lima', 'La Paz'])"
    other = "triangle.area(height=6.0, base=10)"
    answers = [f"[{area}, {trip}]", f"[{trip.replace('La Paz', 'la-paz')}, {other}]", f"[{area}]"]
    votes = [each.vote for each in scores("parallel", *((asked, each) for each in answers))]
    assert votes[0] == votes[1] != votes[2]
    assert scores("simple", (row("simple", ALLOWED_AREA), "none"))[0].vote is None


def test_calls_in_python_syntax_may_lack_their_brackets() -> None:
    assert calls_of("f(x=1), g(y=2)") == calls_of("[f(x=1), g(y=2)]")


def test_where_no_function_fits_only_answers_without_calls_are_right() -> None:
    asked = row("irrelevance")
    found = scores(
        "irrelevance",
        (asked, "None of these functions can tell."),
        (asked, "[]"),
        (asked, "[triangle.area(base=1, height=2)]"),
    )
    assert [(each.value, each.extracted) for each in found[:2]] == [(1.0, "[]"), (1.0, "[]")]
    assert found[2].value == 0.0


def test_an_answer_without_calls_is_wrong_and_unparsable() -> None:
    (found,) = scores("simple", (row("simple", ALLOWED_AREA), "The area is 27.5."))
    assert (found.value, found.extracted) == (0.0, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"function": None}, "function"),
        ({"function": [{"name": "f"}]}, "function[0].parameters"),
        ({"ground_truth": None}, "ground_truth"),
        ({"ground_truth": [{"g": {}}]}, "ground_truth[0]"),
        ({"ground_truth": [{"plan": {"stops": "Lima"}}]}, "ground_truth[0].plan"),
    ],
)
def test_rows_that_ask_nothing_name_the_field(changes: dict[str, Any], field: str) -> None:
    settings: Any = BENCHMARKS["bfcl_simple"].grader
    with pytest.raises(InvalidRequest) as raised:
        read_question(row("simple", ALLOWED_AREA) | changes, settings)
    assert raised.value.param == field


def test_allowed_calls_where_none_are_expected_are_named() -> None:
    settings: Any = BENCHMARKS["bfcl_irrelevance"].grader
    with pytest.raises(InvalidRequest) as raised:
        read_question(row("irrelevance", ALLOWED_AREA), settings)
    assert raised.value.param == "ground_truth"


@pytest.mark.parametrize(
    "answer",
    [
        *("f(__import__('os').system('true'))", "f(x=open('/etc/passwd'))", "f(**{'x': 1})"),
        *("f(x={1, 2})", "f(x=b'1')", "f(x=1e999)", r"f(x='\ud800')", "f(x=" + "(" * 9000),
        *("(" * 300 + ")" * 300, "f()(x=1)", "[f(x=1), 2]", "x" * 30_000),
    ],
)
def test_what_is_no_call_with_plain_values_is_not_read(answer: str) -> None:
    assert calls_of(answer) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab' ", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"\A[a-z]{1,3}_\Z"), JSON, max_size=4))
def test_both_notations_state_the_same_call(arguments: dict[str, Any]) -> None:
    written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    stated = json.dumps([{"name": "a.b", "arguments": arguments}])
    assert calls_of(f"[a.b({written})]") == calls_of(stated)
