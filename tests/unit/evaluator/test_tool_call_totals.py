"""The metrics of an evaluation with the grader ``tool_calls``."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import cast

from services.contracts.evaluation.metrics import CallCounts, CallTable, ToolCallScores
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import ToolCallsGrader
from services.contracts.sampling import Sampling
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.child import evaluate
from services.evaluator.evaluation.generation import Engine
from services.evaluator.evaluation.results import RESULTS, ResultRow
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.evaluation.tool_call_totals import MAX_LISTED, MAX_NAME, ToolCallTotals
from services.evaluator.evaluation.totals import RunningTotals
from services.evaluator.serving import RemoteEndpoint

Call = tuple[str, dict[str, object]]


def calls(*named: Call) -> str:
    return json.dumps([{"toolName": tool, "paramList": params} for tool, params in named])


SEARCH: Call = ("search", {"q": "tides", "n": 3})
OPEN: Call = ("open", {"page": 1})


def row(index: int, extracted: str | None, *gold: str) -> ResultRow:
    return ResultRow(
        index=index,
        gold=list(gold),
        answer=extracted,
        extracted=extracted,
        correct=None if extracted is None else extracted in gold,
    )


def scores_of(*rows: ResultRow, **settings: object) -> ToolCallScores:
    totals = RunningTotals(tool_calls=ToolCallTotals(ToolCallsGrader.model_validate(settings)))
    for each in rows:
        totals.add(each)
    # As the gateway reads them from the job.
    stored = EvaluationMetrics.model_validate_json(totals.metrics().model_dump_json())
    assert stored.tool_calls is not None
    return stored.tool_calls


def by_name(table: CallTable) -> dict[str, CallCounts]:
    return {each.name: each for each in table.entries}


def test_tools_and_parameters_have_precision_recall_and_f1() -> None:
    wrong_value: Call = ("search", {"q": "tides", "n": 5})

    found = scores_of(
        row(0, calls(SEARCH), calls(SEARCH)),
        row(1, calls(wrong_value), calls(SEARCH, OPEN)),
        row(2, calls(OPEN), calls()),
    )

    search, opened = found.tools.entries
    assert (search.name, opened.name) == ("search", "open")
    assert (search.label_count, search.pred_count, search.hit_count) == (2, 2, 2)
    assert (search.precision, search.recall, search.f1) == (1, 1, 1)
    assert (opened.label_count, opened.pred_count, opened.hit_count) == (1, 1, 0)
    assert {name: each.f1 for name, each in by_name(found.parameters).items()} == {
        "open-page": 0.0,
        "search-n": 0.5,
        "search-q": 1.0,
    }
    assert (found.tools.micro_avg.f1, found.tools.macro_avg.f1) == (2 / 3, 0.5)
    assert (found.single.hits, found.single.total) == (1, 1)
    assert (found.multi.hits, found.multi.total) == (0, 1)


def test_an_answer_without_calls_and_a_missing_one_miss_those_of_the_gold() -> None:
    found = scores_of(row(0, None, calls(SEARCH)), row(1, calls(), calls(SEARCH)))

    search = by_name(found.tools)["search"]
    assert (search.label_count, search.pred_count, search.recall) == (2, 0, 0.0)
    assert (found.single.hits, found.single.total) == (0, 2)


def test_of_several_golds_the_one_that_the_answer_equals_counts() -> None:
    found = scores_of(
        row(0, calls(OPEN), calls(SEARCH), calls(OPEN)), row(1, calls(), calls(SEARCH), calls(OPEN))
    )

    assert {name: each.label_count for name, each in by_name(found.tools).items()} == {
        "open": 1,
        "search": 1,
    }


def test_the_path_of_golds_and_strict_types_are_those_of_the_grader() -> None:
    gold = json.dumps({"out": json.loads(calls(("open", {"page": "1"})))})

    loose = scores_of(row(0, calls(OPEN), gold), path="out")
    strict = scores_of(row(0, calls(OPEN), gold), path="out", strict_types=True)

    assert (loose.single.hits, strict.single.hits) == (1, 0)
    assert by_name(strict.parameters)["open-page"].hit_count == 0


def test_invented_names_are_counted_and_left_out_of_the_table() -> None:
    invented: list[Call] = [(f"tool-{number}", {}) for number in range(MAX_LISTED)]
    long: Call = ("x" * (MAX_NAME + 1), {})

    found = scores_of(row(0, calls(*invented, long), calls(SEARCH)))

    assert len(found.tools.entries) == MAX_LISTED
    assert found.tools.entries[0].name == "search"
    assert found.tools.left_out == 2
    assert found.tools.macro_avg.f1 == 0.0


def test_an_evaluation_of_tool_calls_has_their_scores(tmp_path: Path) -> None:
    asked = {"query": "When is the tide?", "label": json.loads(calls(SEARCH))}
    (tmp_path / "rows.jsonl").write_text(json.dumps(asked) + "\n")
    answered = row(0, calls(SEARCH), calls(SEARCH))
    (tmp_path / RESULTS).write_text(answered.model_dump_json() + "\n")
    benchmark = BENCHMARKS["tool_calls"]
    only = BenchmarkSpec(
        samples=tmp_path / "rows.jsonl",
        grader=benchmark.grader,
        benchmark=benchmark,
        sampling=Sampling(),
    )
    endpoint = RemoteEndpoint.model_validate({"base_url": "http://127.0.0.1:9", "model": "m"})
    spec = EvaluationSpec(model=endpoint, benchmarks=[only])

    async def summed_up() -> EvaluationMetrics:
        # Every sample has an answer, so that no engine is entered.
        unused = cast("AbstractAsyncContextManager[Engine]", AsyncExitStack())
        environment = OperatorEnvironment(attempts=1)
        return (await evaluate(spec, tmp_path, unused, environment, Reporter(tmp_path)))[None]

    found = asyncio.run(summed_up()).tool_calls
    assert found is not None
    assert (found.single.hits, by_name(found.tools)["search"].f1) == (1, 1.0)
