"""Samples answered in conversations with tools: their rows, and what another attempt asks again."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.contracts.evaluations import EvaluationMetrics
from services.contracts.graders import NumericGrader
from services.contracts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.trajectories import FinishReason
from services.core.process.reporter import Reporter
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.conversations import ToolConversations, outcome_of
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.generation import Generation, Grading
from services.evaluator.evaluation.results import RESULTS, ResultRow, RunningTotals, read_rows
from services.evaluator.evaluation.samples import EvaluationSample
from services.inference.token_engine.base import EngineFailed
from services.rewards.graders.gold import GoldMatch
from services.rollouts.log.log import IndexedLog, read_indexed
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.tools.health import ToolMonitor
from tests.support.rollouts import (
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
    multi_turn = MultiTurn.model_validate({"multi_turn_enable": True, **settings})
    sampling = RolloutSampling(max_tokens=1000)

    async def run() -> EvaluationMetrics:
        totals = RunningTotals(extracts=True)
        answered = {row.index for row in read_rows(folder / RESULTS)}
        model = TokenModel(engine, CharacterChat(), multi_turn, sampling)
        rollouts = Rollouts(model, FunctionToolbox({"add": tool}), multi_turn)
        for row in read_rows(folder / RESULTS):
            totals.add(row)
        with IndexedLog(folder) as log, AppendLog[ResultRow](folder / RESULTS) as results:
            conversations = ToolConversations(
                rollouts, log, folder, ToolMonitor(Reporter(folder)), 0, asyncio.Event().wait
            )
            grading = Grading(GoldMatch(NumericGrader()), 1.0)
            generation = Generation(conversations, grading, results, totals, system_prompt=None)
            await generation.run(
                (sum_of(index) for index in range(samples) if index not in answered), 1
            )
        return totals.metrics()

    return asyncio.run(run())


def sum_of(index: int) -> EvaluationSample:
    message = {"role": "user", "content": f"{index}+1="}
    return EvaluationSample(index, (message,), (str(index + 1),), {})


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

    assert (metrics.samples, metrics.correct, metrics.unanswered) == (3, 2, 1)
    row = rows(tmp_path)[1]
    assert (row.answer, row.correct, row.error) == (None, None, "gone")
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
