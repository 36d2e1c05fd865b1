"""Samples that failing tools, graders and engines lost are in no score, and are counted apart."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause as Cause
from services.contracts.failures import LeftOut
from services.core.process.outages import Outage, Outages
from services.core.process.reporter import Reporter
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.generation import Generation, Grading, generate
from services.evaluator.evaluation.results import RESULTS, Answered, ResultRow
from services.evaluator.evaluation.results import prepare as prepare_results
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.totals import RunningTotals, SuiteTotals
from services.evaluator.failures import FailureWatch, RequestFailure
from services.inference.clients.retries import FailureKind, ServiceFailed
from services.rewards.interface import RewardFailed, Sample, Score
from services.rollouts.loop import ENGINE
from services.rollouts.outages import WINDOW, OutageWatch

ITEMS = 300
Fails = Callable[[int], bool]


def never(_: int) -> bool:
    return False


class Model:
    """Answers with the number of the row; loses rows to its engine or to a tool."""

    def __init__(self, engine: Fails = never, tool: Fails = never) -> None:
        self._engine = engine
        self._tool = tool

    async def ask(
        self, messages: Sequence[JsonObject], sample: EvaluationSample
    ) -> Answer | Unanswered:
        for source, fails in ((ENGINE, self._engine), ("search", self._tool)):
            if fails(sample.index):
                lost = LeftOut(source=source, cause=Cause.OVERLOADED, message="busy")
                return Unanswered(RequestFailure(503, "busy"), 1, left_out=lost)
        return Answer(str(sample.index), "stop", 3, 2, 1, 0.1)


class Judge:
    """Every third answer is right; some verdicts are lost."""

    def __init__(self, fails: Fails = never) -> None:
        self._fails = fails

    async def score(self, sample: Sample) -> Score:
        number = int(sample.answer)
        if self._fails(number):
            lost = ServiceFailed("no verdict", FailureKind.TIMED_OUT)
            raise RewardFailed("no verdict") from lost
        return Score(float(number % 3 == 0), extracted=str(number))


def run(
    folder: Path, model: Model, judge: Judge, items: int = ITEMS, samples: int = 1
) -> RunningTotals:
    folder.mkdir(exist_ok=True)
    totals = RunningTotals(samples_per_item=samples)
    wanted = (
        EvaluationSample(index, ({"role": "user", "content": "?"},), (), {}, sample=sample)
        for index in range(items)
        for sample in range(samples)
    )

    async def ask() -> None:
        with AppendLog[ResultRow](folder / RESULTS) as results:
            watch = OutageWatch(folder, Reporter(folder))
            generation = Generation(
                model, Grading(judge, 1.0), results, totals, system_prompt=None, outages=watch
            )
            asked = ((generation, sample) for sample in wanted)
            await generate(asked, 4, FailureWatch(answered=0))

    asyncio.run(ask())
    return totals


def tenth(number: int) -> bool:
    return number * 7 % 10 == 3


@pytest.mark.parametrize(
    ("model", "judge", "cause"),
    [
        (Model(), Judge(tenth), Cause.TIMED_OUT),
        (Model(tool=tenth), Judge(), Cause.OVERLOADED),
        (Model(engine=tenth), Judge(), Cause.OVERLOADED),
    ],
)
def test_the_score_is_that_of_the_other_samples_and_says_what_is_left_out(
    tmp_path: Path, model: Model, judge: Judge, cause: Cause
) -> None:
    metrics = run(tmp_path / "failing", model, judge).metrics()

    kept = [number for number in range(ITEMS) if not tenth(number)]
    assert (metrics.left_out, metrics.left_out_causes) == (30, {cause: 30})
    assert (metrics.samples, metrics.items, metrics.errors) == (len(kept), len(kept), 0)
    right = sum(number % 3 == 0 for number in kept)
    assert metrics.accuracy == metrics.mean_score == right / len(kept)
    healthy = run(tmp_path / "healthy", Model(), Judge()).metrics()
    assert healthy.ci95[0] < metrics.accuracy < healthy.ci95[1]
    assert healthy.left_out == 0


def test_pass_at_k_takes_the_samples_that_remain(tmp_path: Path) -> None:
    lost = iter([True, False] * 8)
    totals = run(tmp_path, Model(tool=lambda _: next(lost)), Judge(), items=4, samples=4)
    metrics = totals.metrics()
    assert metrics.samples + metrics.left_out == 16
    assert metrics.pass_at_k is not None
    assert max(map(int, metrics.pass_at_k)) <= 4
    assert SuiteTotals({None: totals}).done == 16


def test_a_sample_that_was_left_out_is_asked_again_by_the_next_attempt(tmp_path: Path) -> None:
    run(tmp_path, Model(), Judge(tenth), items=20)
    answered = Answered(20)
    prepare_results(tmp_path / RESULTS, {None: answered})
    assert [number for number in range(20) if not answered.has(number, 0)] == [9, 19]


@pytest.mark.parametrize(
    ("model", "judge"), [(Model(), Judge(lambda _: True)), (Model(tool=lambda _: True), Judge())]
)
def test_an_outage_of_graders_or_tools_pauses_the_job(
    tmp_path: Path, model: Model, judge: Judge
) -> None:
    with pytest.raises(Outage, match=f"{WINDOW // 2} of {WINDOW} rollouts") as outage:
        run(tmp_path, model, judge)
    assert Outages(tmp_path).begin(outage.value).seconds == 30.0
