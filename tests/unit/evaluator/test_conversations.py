"""Samples answered in conversations with tools: their rows, and what another attempt asks again."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import JobFailed
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import NumericGrader
from services.contracts.rewards.rewards import EnvironmentReward, StepRewards
from services.contracts.rollouts.multi_turn import MultiTurn, Tool
from services.contracts.rollouts.trajectories import FinishReason
from services.contracts.sampling import Sampling
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.agent import Agent, OpenModel, rollout_sampling
from services.evaluator.evaluation.child import evaluate as evaluation
from services.evaluator.evaluation.conversations import ConversationStore, outcome_of
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.results import RESULTS, ResultRow, read_rows
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.rollout.engine import never
from services.evaluator.serving import RemoteEndpoint
from services.inference.token_engine.base import EngineFailed
from services.rollouts.log.log import IndexedLog, read_indexed
from services.rollouts.models.tokens import TokenModel
from services.rollouts.outages import ToolMonitor
from services.rollouts.tools import open_toolbox
from services.rollouts.tools.health import check_tools_respond
from tests.support.engines.environment_server import EnvironmentServer
from tests.support.rollouts import (
    END_TEXT,
    CharacterChat,
    FunctionToolbox,
    ScriptedEngine,
    ToolBroke,
    hermes,
)
from tests.support.trajectories import call, trajectory

Script = Callable[[str], str | EngineFailed]


async def add(a: int = 0, b: int = 0) -> str:
    return str(a + b)


async def broken(a: int = 0, b: int = 0) -> str:
    raise ToolBroke("connection reset")


def adding(context: str) -> str:
    """A model that calls the adding tool and says its reply."""
    asked = context.rpartition("user:")[2]
    left, right = asked.partition("=")[0].split("+")
    if "tool:" not in asked:
        return hermes("add", a=int(left), b=int(right)) + "<end>"
    reply = asked.rpartition("tool:")[2].partition("<end>")[0]
    return f"It is {reply}<end>"


def evaluate(
    folder: Path,
    engine: ScriptedEngine,
    samples: int = 3,
    tool: Callable[..., Any] = add,
    **settings: Any,
) -> EvaluationMetrics:
    """Evaluate sums that have no row yet, one after the other."""
    return evaluate_all(folder, engine, [sums(folder, samples)], tool, **settings)[None]


def evaluate_all(
    folder: Path,
    engine: ScriptedEngine,
    benchmarks: list[BenchmarkSpec],
    tool: Callable[..., Any] = add,
    **settings: Any,
) -> Mapping[str | None, EvaluationMetrics]:
    """Evaluate the samples of benchmarks that have no row yet, one after the other."""
    multi_turn = MultiTurn.model_validate({"multi_turn_enable": True, **settings})
    endpoint = RemoteEndpoint.model_validate({"base_url": "http://127.0.0.1:9", "model": "adder"})
    spec = EvaluationSpec(model=endpoint, benchmarks=benchmarks, max_concurrency=1)
    reporter = Reporter(folder)

    def sampled_by(benchmark: BenchmarkSpec) -> TokenModel:
        sampling = rollout_sampling(benchmark.sampling)
        return TokenModel(engine, CharacterChat(), multi_turn, sampling)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        with IndexedLog(folder) as log:
            store = ConversationStore(log, folder, ToolMonitor(reporter))
            model = OpenModel(sampled_by, never)
            yield Agent(model, FunctionToolbox({"add": tool}), multi_turn, store)

    return asyncio.run(evaluation(spec, folder, opened(), OperatorEnvironment(), reporter))


def sums(
    folder: Path, samples: int, name: str | None = None, more: int = 1, **sampling: Any
) -> BenchmarkSpec:
    """A benchmark of sums with ``more``."""
    path = folder / f"{name}.jsonl"
    rows = [{"prompt": f"{index}+{more}=", "gold": index + more} for index in range(samples)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return BenchmarkSpec(
        name=name,
        samples=path,
        grader=NumericGrader(),
        sampling=Sampling.model_validate({"max_tokens": 1000, **sampling}),
    )


def rows(folder: Path) -> dict[int, ResultRow]:
    return {row.index: row for row in read_rows(folder / RESULTS)}


def test_a_row_has_the_final_answer_and_leads_to_its_conversation(tmp_path: Path) -> None:
    metrics = evaluate(tmp_path, ScriptedEngine(adding))

    assert (metrics.samples, metrics.correct, metrics.errors) == (3, 3, 0)
    row = rows(tmp_path)[2]
    assert (row.answer, row.extracted, row.correct) == ("It is 3<end>", "3", True)
    assert (row.finish_reason, row.status_code) == ("answered", 200)
    assert row.tools is not None
    assert (row.tools.turns, row.tools.calls, row.tools.failed_calls) == (2, 1, 0)
    kept = {each.id: each for each in read_indexed(tmp_path)}[row.tools.trajectory]
    assert kept.turns[0].calls[0].shown == "3"
    assert kept.sampled_tokens == row.completion_tokens


def test_an_environment_grades_by_the_rewards_of_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "None.jsonl"
    rows_of_file = [{"prompt": f"start at {start}", "start": start} for start in (0, 8)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of_file))
    benchmark = BenchmarkSpec(
        name=None,
        samples=path,
        grader=EnvironmentReward(steps=StepRewards.LAST),
        sampling=Sampling(max_tokens=1000),
        pass_threshold=5.0,
    )
    endpoint = RemoteEndpoint.model_validate({"base_url": "http://127.0.0.1:9", "model": "player"})
    spec = EvaluationSpec(model=endpoint, benchmarks=[benchmark], max_concurrency=1)
    multi_turn = MultiTurn(multi_turn_enable=True)
    said = hermes("add", by=3), hermes("add", by=4), "done"
    engine = ScriptedEngine(lambda text: said[text.count("assistant:") - 1] + END_TEXT)
    reporter = Reporter(tmp_path)

    def sampled_by(benchmark: BenchmarkSpec) -> TokenModel:
        sampling = rollout_sampling(benchmark.sampling)
        return TokenModel(engine, CharacterChat(), multi_turn, sampling)

    @asynccontextmanager
    async def opened(tool: Tool) -> AsyncIterator[Agent]:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            with IndexedLog(tmp_path) as log:
                store = ConversationStore(log, tmp_path, ToolMonitor(reporter))
                yield Agent(OpenModel(sampled_by, never), toolbox, multi_turn, store)

    with EnvironmentServer() as server:
        config = {"url": server.origin, "reset_fields": ["start"]}
        agent = opened(Tool(class_name="openenv", config=config))
        asyncio.run(evaluation(spec, tmp_path, agent, OperatorEnvironment(), reporter))

    ended, won = rows(tmp_path)[0], rows(tmp_path)[1]
    assert [each["start"] for each in server.resets] == [0, 8]
    assert (ended.score, ended.correct, ended.finish_reason) == (4.0, False, "answered")
    assert (won.score, won.finish_reason) == (3.0, "environment_done")


def test_use_of_tools_is_summed_up(tmp_path: Path) -> None:
    metrics = evaluate(tmp_path, ScriptedEngine(adding), tool=broken)

    found = metrics.tool_use
    assert found is not None
    assert (found.calls, found.failed_calls, found.malformed_calls) == (3, 3, 0)
    assert found.endings == {"answered": 3}
    assert metrics.correct == 0
    assert (found.per_sample["turns"].mean, found.per_sample["failed_calls"].mean) == (2.0, 1.0)


def test_a_conversation_that_ends_with_a_call_has_no_answer(tmp_path: Path) -> None:
    metrics = evaluate(tmp_path, ScriptedEngine(adding), max_tool_calls=0)

    assert (metrics.correct, metrics.errors, metrics.unparsable) == (0, 0, 3)
    assert rows(tmp_path)[0].answer == ""
    assert metrics.tool_use is not None
    assert metrics.tool_use.endings == {"calls_spent": 3}


def test_failures_of_the_engine_are_no_answers(tmp_path: Path) -> None:
    def failing(context: str) -> str | EngineFailed:
        return EngineFailed("gone") if "1+1=" in context else adding(context)

    metrics = evaluate(tmp_path, ScriptedEngine(failing))

    assert (metrics.samples, metrics.correct, metrics.left_out) == (2, 2, 1)
    row = rows(tmp_path)[1]
    assert (row.answer, row.correct, row.error) == (None, None, "gone")
    assert row.left_out is not None
    assert row.left_out.source == "engine"
    assert row.tools is not None
    assert metrics.tool_use is not None
    assert metrics.tool_use.calls == 2  # of those that were answered


def test_a_stored_conversation_is_graded_and_not_played_again(tmp_path: Path) -> None:
    evaluate(tmp_path, ScriptedEngine(adding))
    before = rows(tmp_path)
    lines = (tmp_path / RESULTS).read_bytes().splitlines(keepends=True)
    (tmp_path / RESULTS).write_bytes(lines[0])  # as if it was killed before it graded the others

    engine = ScriptedEngine(adding)
    evaluate(tmp_path, engine)

    assert engine.asked == []
    assert rows(tmp_path) == before
    assert len(list(read_indexed(tmp_path))) == 3


def test_a_conversation_that_the_engine_failed_is_played_again(tmp_path: Path) -> None:
    def fail_then_add(context: str) -> str | EngineFailed:
        return EngineFailed("gone") if "tool:" in context and "1+1=" in context else adding(context)

    evaluate(tmp_path, ScriptedEngine(fail_then_add), samples=2)
    (tmp_path / RESULTS).unlink()

    metrics = evaluate(tmp_path, ScriptedEngine(adding), samples=2)

    assert (metrics.correct, metrics.errors) == (2, 0)
    assert all(not each.finish_reason.is_failure for each in read_indexed(tmp_path))


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (FinishReason.PROMPT_REFUSED, 400),
        (FinishReason.INTERNAL_ERROR, 500),
        (FinishReason.ENGINE_FAILED, None),
    ],
)
def test_failed_conversations_say_whose_fault_it_is(
    ending: FinishReason, status: int | None
) -> None:
    outcome = outcome_of(trajectory(finish_reason=ending, error="why"))

    assert isinstance(outcome, Unanswered)
    assert (outcome.failure.status_code, outcome.failure.message) == (status, "why")


def test_a_last_turn_with_a_call_that_did_not_fit_is_no_answer() -> None:
    outcome = outcome_of(trajectory(calls=[call()], finish_reason=FinishReason.REPLY_TOO_LONG))

    assert isinstance(outcome, Answer)
    assert (outcome.text, outcome.finish_reason) == ("", "reply_too_long")


def test_benchmarks_of_one_job_have_conversations_and_metrics_of_their_own(tmp_path: Path) -> None:
    benchmarks = [
        sums(tmp_path, 2, "ones", temperature=0.5),
        sums(tmp_path, 3, "tens", more=10, max_tokens=900),
    ]
    metrics = evaluate_all(tmp_path, ScriptedEngine(adding), benchmarks)

    assert [(name, each.correct) for name, each in metrics.items()] == [("ones", 2), ("tens", 3)]
    assert [each.tool_use and each.tool_use.calls for each in metrics.values()] == [2, 3]
    kept = {each.id: each for each in read_indexed(tmp_path)}
    assert len({each.prompt_index for each in kept.values()}) == len(kept) == 5
    for row in read_rows(tmp_path / RESULTS):
        assert row.tools is not None
        asked = kept[row.tools.trajectory].messages[-1]["content"]
        assert asked == f"{row.index}+{1 if row.benchmark == 'ones' else 10}="

    (tmp_path / RESULTS).unlink()  # as if it was killed before it graded any
    again = ScriptedEngine(adding)
    assert evaluate_all(tmp_path, again, benchmarks)["tens"].correct == 3
    assert again.asked == []


def seeds(engine: ScriptedEngine) -> dict[str, list[int | None]]:
    """The seeds of the turns by what the model had read before each."""
    found: dict[str, list[int | None]] = {}
    for context, sampling in engine.asked:
        found.setdefault(context, []).append(sampling.seed)
    return found


def folder_of(path: Path) -> Path:
    path.mkdir()
    return path


def test_the_seeds_of_a_benchmark_do_not_depend_on_its_place(tmp_path: Path) -> None:
    sampled: dict[str, Any] = {"temperature": 0.7, "seed": 5}

    def of(folder: Path, name: str | None) -> BenchmarkSpec:
        return sums(folder, 3, name, more=10, **sampled).model_copy(update={"samples_per_item": 2})

    alone = ScriptedEngine(adding)
    single = folder_of(tmp_path / "single")
    evaluate_all(single, alone, [of(single, None)])

    other = folder_of(tmp_path / "several")
    others = [sums(other, 4, "ones", **sampled), of(other, "tens")]
    behind = ScriptedEngine(adding)
    evaluate_all(other, behind, others)

    wanted = seeds(alone)
    drawn = [seed for each in wanted.values() for seed in each]
    assert len(set(drawn)) == len(drawn) == 12, "each turn of each sample has a seed of its own"
    found = seeds(behind)
    assert {context: found[context] for context in wanted} == wanted


def test_another_attempt_draws_the_same_seeds(tmp_path: Path) -> None:
    benchmarks = [
        sums(tmp_path, 2, name, more=more, temperature=0.7, seed=5)
        for name, more in (("ones", 1), ("tens", 10))
    ]

    def fail_tens(context: str) -> str | EngineFailed:
        is_late = "tool:" in context and "+10=" in context
        return EngineFailed("gone") if is_late else adding(context)

    failing, again = ScriptedEngine(fail_tens), ScriptedEngine(adding)
    with pytest.raises(JobFailed, match="all 2 samples of tens were left out"):
        evaluate_all(tmp_path, failing, benchmarks)
    evaluate_all(tmp_path, again, benchmarks)

    first = seeds(failing)
    assert len(again.asked) == 4, "both turns of the two conversations that failed"
    assert seeds(again) == {context: first[context] for context in seeds(again)}
