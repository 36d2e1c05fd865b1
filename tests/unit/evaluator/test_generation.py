"""The window of concurrent requests, and how generation ends."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import JobFailed, StorageFull
from services.contracts.rewards.graders import ExactGrader
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.generation import Generation, Grading, generate
from services.evaluator.evaluation.results import RESULTS, ResultRow, read_rows
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.totals import RunningTotals
from services.evaluator.failures import FailureWatch
from services.rewards.graders.gold import GoldMatch


class Echo:
    """Answers with the last message; can hold its answers and become unavailable."""

    def __init__(self) -> None:
        self.seen: list[Sequence[JsonObject]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.gone = asyncio.Event()

    async def ask(
        self, messages: Sequence[JsonObject], sample: EvaluationSample
    ) -> Answer | Unanswered:
        self.seen.append(messages)
        await self.may_answer.wait()
        return Answer(messages[-1]["content"], "stop", 3, 2, 1, 0.1)

    async def watch(self) -> None:
        await self.gone.wait()
        raise JobFailed("the server ended", code="engine_gone")


async def run_all(
    model: Echo, generation: Generation, source: Iterator[EvaluationSample], concurrency: int
) -> None:
    asked = ((generation, sample) for sample in source)
    await generate(asked, concurrency, FailureWatch(answered=0), model.watch())


def samples(count: int) -> Iterator[EvaluationSample]:
    for index in range(count):
        yield EvaluationSample(index, ({"role": "user", "content": str(index)},), (str(index),), {})


def generation(
    model: Echo,
    results: AppendLog[ResultRow],
    totals: RunningTotals,
    system_prompt: str | None = None,
) -> Generation:
    grading = Grading(GoldMatch(ExactGrader()), 1.0)
    return Generation(model, grading, results, totals, system_prompt=system_prompt)


async def let_tasks_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_every_sample_is_requested_and_counted(tmp_path: Path) -> None:
    async def run() -> RunningTotals:
        totals = RunningTotals()
        with AppendLog[ResultRow](tmp_path / RESULTS) as results:
            model = Echo()
            await run_all(model, generation(model, results, totals), samples(50), 7)
        return totals

    totals = asyncio.run(run())
    assert (totals.samples, totals.correct, totals.errors) == (50, 50, 0)
    assert (totals.prompt_tokens, totals.completion_tokens) == (150, 100)
    assert sorted(row.index for row in read_rows(tmp_path / RESULTS)) == list(range(50))


def test_samples_are_read_lazily(tmp_path: Path) -> None:
    async def run() -> int:
        model, source = Echo(), samples(1000)
        model.may_answer.clear()
        with AppendLog[ResultRow](tmp_path / RESULTS) as results:
            asking = run_all(model, generation(model, results, RunningTotals()), source, 4)
            task = asyncio.create_task(asking)
            await let_tasks_run()
            task.cancel()
            await asyncio.wait([task])
        return next(source).index

    assert asyncio.run(run()) == 4


def test_losing_the_model_ends_the_evaluation_and_keeps_its_rows(tmp_path: Path) -> None:
    async def run() -> None:
        model = Echo()
        with AppendLog[ResultRow](tmp_path / RESULTS) as results:
            totals = RunningTotals()
            asked = generation(model, results, totals)
            await run_all(model, asked, samples(3), 2)
            model.may_answer.clear()
            task = asyncio.create_task(run_all(model, asked, samples(9), 2))
            await let_tasks_run()
            model.gone.set()
            await task

    with pytest.raises(JobFailed, match="the server ended"):
        asyncio.run(run())
    assert len(list(read_rows(tmp_path / RESULTS))) == 3


def test_a_full_disk_ends_the_evaluation() -> None:
    async def run() -> None:
        with AppendLog[ResultRow](Path("/dev/full")) as results:
            model = Echo()
            await run_all(model, generation(model, results, RunningTotals()), samples(3), 2)

    with pytest.raises(StorageFull):
        asyncio.run(run())


def test_the_system_prompt_is_prepended_to_conversations_without_one(tmp_path: Path) -> None:
    system = {"role": "system", "content": "its own"}
    user = {"role": "user", "content": "hi"}
    source = iter(
        [EvaluationSample(0, (user,), ("",), {}), EvaluationSample(1, (system, user), ("",), {})]
    )

    async def run() -> list[Sequence[JsonObject]]:
        model = Echo()
        with AppendLog[ResultRow](tmp_path / RESULTS) as results:
            asked = generation(model, results, RunningTotals(), "ours")
            await run_all(model, asked, source, 1)
        return model.seen

    assert [messages[0]["content"] for messages in asyncio.run(run())] == ["ours", "its own"]
