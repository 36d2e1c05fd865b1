"""PANORAMA: rows in the published schema, hand-computed scores and their ratios."""

import json
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.rewards.graders import MetricsVariant
from services.evaluator.evaluation.samples import parse_sample
from services.metrics.measures import Measures
from services.rewards.interface import Score
from services.rewards.panorama.family import PanoramaFamily
from services.rewards.panorama.rows import read_question
from tests.support.evaluation.benchmark_scores import benchmark_scores

CONTEXT = {"title": "A lid", "abstract": "...", "claims": ["1. A lid.", "2. A red lid."]}
OPTIONS = {letter: {"patent_id": letter, "title": "Pot"} for letter in "ABCDEFGH"}


def retrieval(gold: list[str], silver: list[str]) -> dict[str, Any]:
    return {
        **{"application_number": "1", "claim_number": 2, "context": json.dumps(CONTEXT)},
        **{"options": json.dumps(OPTIONS), "gold_answers": gold, "silver_answers": silver},
    }


def paragraphs(gold: list[int], silver: list[int]) -> dict[str, Any]:
    options = {str(key): f"paragraph {key}" for key in (3, 5, 8, 12, 40)}
    prior = {"patent_id": "9", "specification": "..."}
    asked = {"claim_number": 1, "context": CONTEXT, "prior_art_specification": prior}
    return {**asked, "options": options, "gold_answers": gold, "silver_answers": silver}


def examined(code: str) -> dict[str, Any]:
    answer = json.dumps({"reason": "...", "code": code})
    return {
        **{"claim_number": 1, "context": CONTEXT, "answer": answer},
        "prior_art_specifications": json.dumps([{"patent_id": "9"}]),
    }


def scores(
    task: str, *asked: tuple[dict[str, Any], str], metrics: MetricsVariant = "official"
) -> list[Score]:
    return benchmark_scores(f"panorama_{task}", *asked, metrics=metrics)


def means(found: list[Score]) -> dict[str, float]:
    measures = Measures(PanoramaFamily.measures)
    for item, score in enumerate(found):
        measures.add(score.group or "", item, score.measures)
    (group,) = measures.means().values()
    return {name: each.mean for name, each in group.items()}


def test_documents_score_by_ratio_of_sums_and_mean_f1() -> None:
    first, second = retrieval(["A", "C"], ["B"]), retrieval(["D"], [])
    found = scores(
        "par4pc",
        (first, '```json\n{"answer": ["a", "B"]}\n```'),  # one right, one silver, one missing
        (second, '{"answer": "D"}'),
        (second, '{"answer": ["A", "B", "C"]}'),
        (first, "Claim 2 is a red lid, so A."),
    )
    assert [each.value for each in found] == [0.0, 1.0, 0.0, 0.0]
    assert [each.extracted for each in found] == ["A, B", "D", "A, B, C", None]
    # Points: 2 - 0 - 1 of 4, 2 of 2, 0 of 2, 0 of 4. F1: 2/4, 1, 0, 0.
    assert means(found) == pytest.approx({"item_score": 3 / 12, "f1": 1.5 / 4})


def test_a_paragraph_scores_two_one_or_none() -> None:
    asked = paragraphs([12], [5, 8])
    answers = ('{"answer": 12}', '{"answer": "5"}', '{"answer": 3}', '{"answer": [12, 5]}', "12")
    found = scores("pi4pc", *((asked, answer) for answer in answers))
    assert [each.value for each in found] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert means(found) == pytest.approx({"item_score": 3 / 10, "gold_hit_rate": 1 / 5})


def test_an_unparsable_code_counts_as_a_class_of_its_own() -> None:
    found = scores(
        "noc4pc",
        (examined("102"), '{"code": "102"}'),
        (examined("103"), '{"code": 102}'),
        (examined("ALLOW"), "It is not allowable."),
        (examined("ALLOW"), '{"code": "allow"}'),
    )
    assert [each.value for each in found] == [1.0, 0.0, 0.0, 1.0]
    # F1 of 102: 2 of 3; of 103: 0 of 1; of ALLOW: 2 of 3; of the class without a code: 0 of 1.
    assert means(found) == pytest.approx({"macro_f1": (2 / 3 + 0 + 2 / 3 + 0) / 4})


def test_the_fork_knows_no_silver_documents_and_pools_f1() -> None:
    found = scores(
        "par4pc",
        (retrieval(["A", "C"], ["B"]), '{"answer": ["A", "C", "B"]}'),
        (retrieval(["D"], []), '{"answer": ["A", "B", "C"]}'),
        (retrieval(["D"], []), "no answer"),
        metrics="fork",
    )
    assert [each.value for each in found] == [0.0, 0.0, 0.0]
    # Points: 4 - 1 of 4, 0 of 2, 0 of 2; with silver the first would have 4. F1: 2 * 2 of 3 + 2 +
    # 3 + 1 + 0 + 1.
    assert means(found) == pytest.approx({"item_score": 3 / 8, "pooled_f1": 4 / 10})


def test_the_fork_leaves_unparsable_codes_out() -> None:
    found = scores(
        "noc4pc",
        (examined("102"), '{"code": "102"}'),
        (examined("ALLOW"), "It is not allowable."),
        (examined("103"), '{"code": "102"}'),
        metrics="fork",
    )
    assert [each.value for each in found] == [1.0, 0.0, 0.0]
    # F1 of 102: 2 of 3; of 103: 0 of 1; ALLOW has no answer and no claim left.
    assert means(found) == pytest.approx({"macro_f1": (2 / 3 + 0) / 2})


def test_the_prompt_has_the_application_the_claim_and_the_options() -> None:
    item = parse_sample(retrieval(["A"], []), 0, None, BENCHMARKS["panorama_par4pc_cot"])
    (message,) = item.messages
    assert '"title": "A lid"' in message["content"]
    assert '"patent_id": "H"' in message["content"]
    assert "Claim 2 is examined." in message["content"]
    assert "reasoning, step by step" in message["content"]


@pytest.mark.parametrize(
    ("task", "changes", "field"),
    [
        ("par4pc", {"gold_answers": []}, "gold_answers"),
        ("par4pc", {"gold_answers": ["Z"]}, "gold_answers"),
        ("par4pc", {"silver_answers": "B"}, "silver_answers"),
        ("par4pc", {"options": "{"}, "options"),
    ],
)
def test_rows_without_right_answers_name_the_field(
    task: str, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_question(retrieval(["A"], ["B"]) | changes, (), task)
    assert raised.value.param == field


@pytest.mark.parametrize("golds", [(), ("102",), ('{"code": "104"}',), ("{",)])
def test_a_claim_without_a_code_is_named(golds: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_question({}, golds, "noc4pc")
    assert raised.value.param == "answer"
