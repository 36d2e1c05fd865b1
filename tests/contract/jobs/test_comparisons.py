"""Comparisons of evaluations, over REST and by ``temper compare``. No worker runs these jobs."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.core.db.engine import Database
from temper.cli.main import main
from tests.support.evaluation.evaluations import LOWER_SCORE, SucceededEvaluations


@pytest.fixture(scope="module")
def database(home: Path, url: str) -> Iterator[Database]:
    database = Database(f"sqlite:///{home / 'temper.db'}")
    yield database
    database.close()


@pytest.fixture(scope="module")
def file_id(http: httpx.Client) -> str:
    return upload(http)


def upload(http: httpx.Client) -> str:
    row = json.dumps({"prompt": uuid.uuid4().hex, "gold": "2"}).encode()
    files = {"file": ("evals.jsonl", row)}
    made = http.post("/v1/files", files=files, data={"purpose": "evals"})
    return str(made.json()["id"])


@pytest.fixture
def succeeded(
    http: httpx.Client, database: Database, home: Path, file_id: str
) -> SucceededEvaluations:
    return SucceededEvaluations(http, database, home, file_id)


def test_candidates_are_tested_against_the_baseline_on_the_same_items(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    baseline = succeeded.evaluation("1100-0000")
    better = succeeded.evaluation("101111111")
    equal = succeeded.evaluation("1100-0000")

    answer = http.post(f"/v1/evaluations/{baseline}/compare", json={"candidates": [better, equal]})

    assert answer.status_code == 200, answer.text
    first, second = answer.json()["comparisons"]
    assert (first["candidate"], first["items"], first["left_out"]) == (better, 9, 0)
    assert (first["gained"], first["gained_items"]) == (7, [2, 3, 4, 5, 6, 7, 8])
    assert (first["lost"], first["lost_items"]) == (1, [1])
    assert (first["baseline_errors"], first["candidate_errors"]) == (1, 0)
    assert first["test"] == "mcnemar"
    assert first["exact_p_value"] == pytest.approx(2 * (1 + 8) / 256)
    assert first["ci95"][0] > 0  # 7 to 1, by the score test
    assert first["p_value"] < 0.05
    assert first["p_adjusted"] == pytest.approx(2 * first["p_value"])
    assert first["difference"] == pytest.approx(6 / 9)
    assert (second["difference"], second["p_value"], second["p_adjusted"]) == (0.0, 1.0, 1.0)


def test_an_ungraded_answer_counts_as_the_worst_score_of_both(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    baseline, candidate = succeeded.evaluation("11-0"), succeeded.evaluation("1011")

    answer = http.post(
        f"/v1/evaluations/{baseline}/compare",
        json={"candidates": [candidate], "value": "score"},
    )

    (found,) = answer.json()["comparisons"]
    assert (found["items"], found["left_out"], found["test"]) == (4, 0, "paired_permutation")
    assert (found["baseline_errors"], found["candidate_errors"]) == (1, 0)
    assert (found["lost_items"], found["gained_items"]) == ([1], [2, 3])
    assert found["difference"] == pytest.approx((-0.25 + 0.5 + 0.75) / 4)


def test_where_lower_is_better_the_lower_candidate_wins(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    # Each correct row has a score that grows with its number, and others have 0.
    baseline = succeeded.evaluation("1111111111", benchmark=LOWER_SCORE)
    lower = succeeded.evaluation("1110000000", benchmark=LOWER_SCORE)
    upward = succeeded.evaluation("11", benchmark=LOWER_SCORE | {"direction": "maximize"})
    path = f"/v1/evaluations/{baseline}/compare"

    found = http.post(path, json={"candidates": [lower]}).json()
    correct = http.post(path, json={"candidates": [lower], "value": "correct"}).json()
    refused = http.post(path, json={"candidates": [upward]})

    (one,) = found["comparisons"]
    assert (found["value"], one["value"], one["direction"]) == ("score", "score", "minimize")
    assert one["difference"] < 0
    assert (one["gained_items"], one["lost_items"]) == ([3, 4, 5, 6, 7, 8, 9], [])
    assert (one["better"], one["p_value"]) == ("candidate", pytest.approx(2 / 2**7))
    silent = succeeded.evaluation("----------", benchmark=LOWER_SCORE)
    (none,) = http.post(path, json={"candidates": [silent]}).json()["comparisons"]
    assert (none["better"], none["items"], none["gained"]) == ("baseline", 10, 0)
    assert none["candidate_mean"] == pytest.approx(0.9), "the baseline's worst"
    (other,) = correct["comparisons"]
    assert (other["direction"], other["better"], other["lost"]) == ("maximize", "baseline", 7)
    assert refused.status_code == 400
    assert "direction" in refused.text


def test_evaluations_without_the_same_items_or_grader_are_refused(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    baseline = succeeded.evaluation("11")
    path = f"/v1/evaluations/{baseline}/compare"
    other_grader = succeeded.evaluation("11", grader={"type": "numeric"})
    queued = http.post("/v1/evaluations", json={"model": "base", "file": succeeded.file_id}).json()[
        "id"
    ]
    succeeded.file_id = upload(http)
    other_file = succeeded.evaluation("11")

    answers = {
        each: http.post(path, json={"candidates": [each]})
        for each in (other_grader, other_file, queued, baseline, "eval-absent")
    }

    statuses = {each: answer.status_code for each, answer in answers.items()}
    assert statuses == {
        **{other_grader: 400, other_file: 400, queued: 409, baseline: 400},
        "eval-absent": 404,
    }
    assert "they differ in grader" in answers[other_grader].text
    assert "the same file" in answers[other_file].text


def own(**fields: object) -> dict[str, object]:
    return {"question": "prompt", "answer": "gold", "grader": {"type": "exact"}, **fields}


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        ({"benchmark": own()}, {"benchmark": own(answer="other")}, "benchmark.answer"),
        ({"benchmark": own()}, {"benchmark": own(question="gold")}, "benchmark.question"),
        ({}, {"benchmark": own()}, "benchmark.question, benchmark.answer"),
        ({"prediction": {"path": "a"}}, {"prediction": {"path": "b"}}, "prediction"),
        ({}, {"keep_reasoning": True}, "keep_reasoning"),
        ({"pass_threshold": 0.5}, {}, "pass_threshold"),
    ],
)
def test_evaluations_that_grade_something_else_are_refused(
    http: httpx.Client,
    succeeded: SucceededEvaluations,
    one: dict[str, Any],
    other: dict[str, Any],
    differing: str,
) -> None:
    baseline, candidate = succeeded.evaluation("11", **one), succeeded.evaluation("11", **other)

    answer = http.post(f"/v1/evaluations/{baseline}/compare", json={"candidates": [candidate]})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "candidates")
    assert answer.json()["error"]["message"].endswith(f"they differ in {differing}")


def test_other_prompts_around_the_same_question_are_compared(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    baseline = succeeded.evaluation("10", benchmark=own())
    candidate = succeeded.evaluation("11", benchmark=own(prompt="Think. {question}"))

    answer = http.post(f"/v1/evaluations/{baseline}/compare", json={"candidates": [candidate]})

    assert answer.json()["comparisons"][0]["gained_items"] == [1]


def test_an_evaluation_of_one_file_is_compared_with_the_benchmark_that_asks_the_same(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    benchmarks = {name: own(answer=name) for name in ("gold", "other")}
    baseline = succeeded.of_several(benchmarks, gold="10", other="01")
    alone = succeeded.evaluation("11", benchmark=own(answer="other"))

    answer = http.post(f"/v1/evaluations/{baseline}/compare", json={"candidates": [alone]})

    (found,) = answer.json()["comparisons"]
    assert (found["benchmark"], found["gained_items"]) == ("other", [0])


def test_several_benchmarks_are_compared_one_by_one(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    baseline = succeeded.of_several(a="1100", b="00", only="1")
    candidate = succeeded.of_several(b="11", a="1010")
    alone = succeeded.evaluation("111-")

    answer = http.post(
        f"/v1/evaluations/{baseline}/compare", json={"candidates": [candidate, alone]}
    )

    assert answer.status_code == 200, answer.text
    found = answer.json()["comparisons"]
    assert [(each["candidate"], each["benchmark"], each["items"]) for each in found] == [
        (candidate, "a", 4),
        (candidate, "b", 2),
        (alone, "a", 4),
    ]
    assert [(each["gained_items"], each["lost_items"]) for each in found] == [
        ([2], [1]),
        ([0, 1], []),
        ([2], []),
    ]
    assert [each["candidate_errors"] for each in found] == [0, 0, 1]


def test_evaluations_that_share_no_benchmark_are_refused(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    baseline, other = succeeded.of_several(a="1", b="0"), succeeded.of_several(c="1", d="0")
    path = f"/v1/evaluations/{baseline}/compare"
    refused = http.post(path, json={"candidates": [other]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "candidates")
    assert "share no benchmark" in refused.text

    succeeded.file_id = upload(http)
    refused = http.post(path, json={"candidates": [succeeded.of_several(a="1", b="0")]})
    assert refused.status_code == 400
    assert "a of eval-" in refused.text


def test_rows_name_their_benchmark_and_are_filtered_by_it(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    path = f"/v1/evaluations/{succeeded.of_several(b='10', a='011')}/results"

    listed = http.get(path, params={"order": "input", "limit": 3}).json()
    rest = http.get(path, params={"order": "input", "after": listed["last_id"]}).json()
    only = http.get(path, params={"benchmark": "b", "outcome": "wrong"}).json()

    rows = [(row["benchmark"], row["index"]) for row in listed["data"] + rest["data"]]
    assert rows == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert [(row["benchmark"], row["index"]) for row in only["data"]] == [("b", 1)]


def test_rows_with_a_tag_are_found_with_their_prompts(
    http: httpx.Client,
    succeeded: SucceededEvaluations,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", url)
    evaluation = succeeded.evaluation("11001")

    query = {"tag": "odd", "order": "input"}
    rows = http.get(f"/v1/evaluations/{evaluation}/results", params=query).json()["data"]
    assert main(["evals", "show", evaluation, "--tag", "odd", "--only", "wrong", "--json"]) == 0

    assert [(row["index"], row["prompt"]) for row in rows] == [(1, "question 1"), (3, "question 3")]
    assert [row["index"] for row in json.loads(capsys.readouterr().out)["data"]] == [3]


def test_the_command_prints_the_difference_and_the_items_that_changed(
    succeeded: SucceededEvaluations,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", url)
    baseline, candidate = succeeded.evaluation("1100"), succeeded.evaluation("101-")

    assert main(["compare", baseline, candidate]) == 0
    text = capsys.readouterr().out
    assert main(["compare", baseline, candidate, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert candidate in text
    assert "gained 1: rows 2" in text
    assert "lost 1: rows 1" in text
    assert "no grade: 0 in A, 1 in B" in text
    assert (document["baseline"], document["comparisons"][0]["items"]) == (baseline, 4)


def test_a_plan_says_how_many_items_a_difference_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evals", "plan", "--difference", "0.05", "--discordant", "0.2"]) == 0
    assert capsys.readouterr().out.strip() == "626"

    assert main(["evals", "plan", "--difference", "0.05"]) == 2
    assert "either --discordant or --accuracy" in capsys.readouterr().err


def test_tool_call_scores_are_shown_side_by_side(
    http: httpx.Client,
    succeeded: SucceededEvaluations,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search: dict[str, object] = {"toolName": "search", "paramList": {"q": "tides"}}
    opened: dict[str, object] = {"toolName": "open", "paramList": {"page": 1}}
    baseline = succeeded.of_tool_calls(([search], [search]), ([search], [opened]))
    candidate = succeeded.of_tool_calls(([search], [search]), ([search], [search]))

    answer = http.post(f"/v1/evaluations/{baseline}/compare", json={"candidates": [candidate]})

    (found,) = answer.json()["comparisons"]
    for side, name in (("baseline", baseline), ("candidate", candidate)):
        metrics = http.get(f"/v1/evaluations/{name}").json()["metrics"]
        assert found["tool_calls"][side] == metrics["tool_calls"]
    monkeypatch.setenv("TEMPER_API_URL", url)
    assert main(["compare", baseline, candidate]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    row = ["search", "1.0000", "1.0000", "0.5000", "1.0000", "0.6667", "1.0000", "+0.3333"]
    assert row in lines


def test_a_comparison_without_graded_calls_has_no_scores_of_calls(
    http: httpx.Client, succeeded: SucceededEvaluations
) -> None:
    baseline, candidate = succeeded.evaluation("11"), succeeded.evaluation("10")

    answer = http.post(f"/v1/evaluations/{baseline}/compare", json={"candidates": [candidate]})

    (found,) = answer.json()["comparisons"]
    assert found["tool_calls"] is None
