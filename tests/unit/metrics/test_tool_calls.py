"""Precision, recall and F1 of tool calls, against counts made by hand."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.metrics.tool_calls import (
    NEGATIVE,
    Calls,
    Comparison,
    CompositeKey,
    InvalidCalls,
    Sample,
    Score,
    ToolCall,
    ToolCallMetrics,
    important,
    macro_average,
    measure,
    micro_average,
    parse_calls,
)

TRUCK = CompositeKey("truckCheck", "truckType", "value", frozenset({"车长", "车型"}))


def call(tool: str, **params: Any) -> ToolCall:
    return ToolCall(tool, params)


def measured(*samples: tuple[Calls, Calls], **comparison: Any) -> ToolCallMetrics:
    return measure([Sample(*each) for each in samples], Comparison(**comparison))


def test_repeated_calls_count_as_often_as_they_occur() -> None:
    metrics = measured(([call("a"), call("a")], [call("a"), call("a"), call("a")]))
    counts = metrics.tools["a"]
    assert (counts.label_count, counts.pred_count, counts.hit_count) == (2, 3, 2)
    assert counts.score == Score(2 / 3, 1.0, 0.8)


def test_hits_are_counted_within_a_sample() -> None:
    metrics = measured(([call("a")], []), ([], [call("a")]))
    assert metrics.tools["a"].hit_count == 0
    assert metrics.tools["a"].score == Score(0.0, 0.0, 0.0)


def test_micro_pools_and_macro_is_unweighted() -> None:
    metrics = measured(
        ([call("a")] * 3, [call("a")] * 3), ([call("b")], [call("c")]), ([call("b")], [call("b")])
    )
    counts = metrics.tools.values()
    assert micro_average(counts) == Score(4 / 5, 4 / 5, 4 / 5)
    assert macro_average(counts) == Score(2 / 3, 0.5, (1 + 2 / 3) / 3)
    assert macro_average([]) == Score(0.0, 0.0, 0.0)


def test_parameters_are_matched_by_value() -> None:
    metrics = measured(
        (
            [call("a", x=1, y="u"), call("a", x=2)],
            [call("a", x=2, y="v"), call("a", x=3)],
        )
    )
    x, y = metrics.parameters["a-x"], metrics.parameters["a-y"]
    assert (x.label_count, x.pred_count, x.hit_count) == (2, 2, 1)
    assert (y.label_count, y.pred_count, y.hit_count) == (1, 1, 0)


def test_values_with_colons_are_kept_whole() -> None:
    metrics = measured(([call("a", x="10:30")], [call("a", x="10:45")]))
    assert metrics.parameters["a-x"].hit_count == 0


@pytest.mark.parametrize(
    ("label", "prediction"),
    [(100, "100"), (True, "True"), (None, "None"), ([2, 1], ["1", "2"]), ({"a": 1}, {"a": "1"})],
)
def test_scalars_are_compared_by_text_unless_types_are_strict(
    label: object, prediction: object
) -> None:
    samples = ([call("a", x=label)], [call("a", x=prediction)])
    assert measured(samples).parameters["a-x"].hit_count == 1
    assert measured(samples, strict_types=True).parameters["a-x"].hit_count == 0


def test_lists_and_objects_are_compared_without_order() -> None:
    label = call("a", x=[{"b": 1, "a": [2, 1]}, "u"])
    prediction = call("a", x=["u", {"a": [1, 2], "b": 1}])
    metrics = measured(([label], [prediction]), strict_types=True)
    assert metrics.parameters["a-x"].hit_count == 1
    assert metrics.wrong == []


def test_a_list_is_not_its_text() -> None:
    metrics = measured(([call("a", x=["u"])], [call("a", x='["u"]')]))
    assert metrics.parameters["a-x"].hit_count == 0


def test_composite_keys_count_beside_the_plain_ones() -> None:
    truck = call("truckCheck", truckType="车长", value=9.6)
    metrics = measured(([truck], [truck]), composites=(TRUCK,))
    assert sorted(metrics.parameters) == [
        "truckCheck-truckType",
        "truckCheck-truckType-车长",
        "truckCheck-value",
    ]
    assert {each.hit_count for each in metrics.parameters.values()} == {1}


@pytest.mark.parametrize(
    "other",
    [
        call("truckCheck", truckType="color", value=9.6),
        call("truckCheck", truckType="车长"),
        call("truckCheck", value=9.6),
        call("priceCheck", truckType="车长", value=9.6),
    ],
)
def test_composite_keys_need_their_tool_type_and_value(other: ToolCall) -> None:
    metrics = measured(([other], [other]), composites=(TRUCK,))
    assert not [key for key in metrics.parameters if key.endswith("-车长")]


def test_negatives_are_a_tool_only_when_asked_for() -> None:
    samples: list[tuple[Calls, Calls]] = [([], []), ([], [call("a", x=1)]), ([call("a")], [])]
    assert NEGATIVE not in measured(*samples).tools
    metrics = measured(*samples, negatives=True)
    counts = metrics.tools[NEGATIVE]
    assert (counts.label_count, counts.pred_count, counts.hit_count) == (2, 2, 1)
    assert list(metrics.parameters) == ["a-x"]


def test_strict_counts_samples_with_equal_calls() -> None:
    metrics = measured(
        ([call("a", x=1)], [call("a", x=1)]),
        ([call("a", x=1)], [call("a", x=1), call("a", x=1)]),
        ([call("a"), call("b")], [call("b"), call("a")]),
        ([call("a"), call("a")], [call("a")]),
        ([], []),
    )
    assert (metrics.single.hits, metrics.single.total) == (1, 2)
    assert (metrics.multi.hits, metrics.multi.total) == (1, 2)
    assert metrics.wrong == [1, 3]


def test_averages_can_be_repeated_over_some_tools() -> None:
    metrics = measured(([call("a", x=1), call("ab", x=1)], [call("a", x=1)]))
    assert list(important(metrics.tools, ["a"])) == ["a"]
    assert list(metrics.parameters_of(["a"])) == ["a-x"]


def test_hyphens_in_names_mix_neither_tools_nor_parameters() -> None:
    metrics = measured(
        ([call("search", q="x")], [call("search", q="x")]),
        ([call("search-web", q="x")], []),
        ([call("search", **{"web-q": "x"})], [call("search-web", q="x")]),
    )

    assert list(important(metrics.tools, ["search"])) == ["search"]
    named = {name: each.hit_count for name, each in metrics.parameters.items()}
    assert named == {"search-q": 1, '["search", "web-q"]': 0, '["search-web", "q"]': 0}
    assert list(metrics.parameters_of(["search"])) == ["search-q", '["search", "web-q"]']
    assert list(metrics.parameters_of(["search-web"])) == ['["search-web", "q"]']


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"toolName": "a"}, "sample 3 is not a list of calls"),
        (["a"], "sample 3[0] is not an object with toolName and paramList"),
        ([{"toolName": "a"}, {"paramList": {}}], "sample 3[1].toolName is missing or not a text"),
        ([{"toolName": 7}], "sample 3[0].toolName is missing or not a text"),
        ([{"toolName": "a", "paramList": []}], "sample 3[0].paramList is not an object"),
    ],
)
def test_what_is_not_a_call_is_named(value: object, message: str) -> None:
    with pytest.raises(InvalidCalls, match="^" + message.replace("[", r"\[") + "$"):
        parse_calls(value, "sample 3")


def test_calls_may_lack_parameters() -> None:
    assert parse_calls([{"toolName": "a"}, {"toolName": "b", "paramList": None}], "x") == [
        call("a"),
        call("b"),
    ]


VALUES = st.sampled_from(["10:30", 1, "1", True, None, [1, 2], [2, 1], {"k": 1}])
CALLS = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from(["truckCheck", "b", NEGATIVE]),
        st.dictionaries(st.sampled_from(["truckType", "value"]), VALUES | st.just("车长")),
    ),
    max_size=4,
)
SAMPLES = st.lists(st.builds(Sample, CALLS, CALLS), max_size=6)
COMPARISONS = st.builds(Comparison, st.booleans(), st.booleans(), st.sampled_from([(), (TRUCK,)]))


@given(SAMPLES, COMPARISONS)
def test_every_score_is_between_0_and_1(samples: Sequence[Sample], comparison: Comparison) -> None:
    metrics = measure(samples, comparison)
    for table in (metrics.tools, metrics.parameters):
        averages = [micro_average(table.values()), macro_average(table.values())]
        for score in [each.score for each in table.values()] + averages:
            assert 0 <= score.precision <= 1
            assert 0 <= score.recall <= 1
            assert 0 <= score.f1 <= 1


@given(SAMPLES, COMPARISONS, st.randoms(use_true_random=False))
def test_order_of_samples_and_calls_does_not_matter(
    samples: Sequence[Sample], comparison: Comparison, order: random.Random
) -> None:
    def shuffled(calls: Calls) -> Calls:
        return order.sample(calls, len(calls))

    reordered = [
        Sample(shuffled(each.label), shuffled(each.prediction))
        for each in order.sample(samples, len(samples))
    ]
    before, after = measure(samples, comparison), measure(reordered, comparison)
    assert (before.tools, before.parameters) == (after.tools, after.parameters)
    assert (before.single, before.multi) == (after.single, after.multi)


@given(SAMPLES, COMPARISONS)
def test_predicting_the_label_is_perfect(samples: Sequence[Sample], comparison: Comparison) -> None:
    metrics = measure([Sample(each.label, each.label) for each in samples], comparison)
    scores = [each.score for each in (*metrics.tools.values(), *metrics.parameters.values())]
    assert all(score == Score(1.0, 1.0, 1.0) for score in scores)
    assert metrics.wrong == []
