"""Requests to the learner's process, and its failures."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from services.contracts.training.fine_tuning import Method
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner import client as learner_process
from services.trainer.rl.learner.client import LearnerClient, LearnerFailed
from services.trainer.rl.learner.protocol import LearnerSpec
from tests.support.rl.learner_child import BEHAVIOR, ENDED

METHOD: dict[str, Any] = {
    "type": "reinforcement",
    "reinforcement": {"rewards": [{"name": "r", "reward": {"type": "search_em"}}]},
}


@pytest.fixture(params=[{}])
def learner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> LearnerClient:
    monkeypatch.setattr(learner_process, "MODULE", "tests.support.rl.learner_child")
    monkeypatch.delenv("MKL_CBWR", raising=False)
    reinforcement = {**METHOD["reinforcement"], "hyperparameters": request.param}
    spec = LearnerSpec(
        model=tmp_path,
        socket=Path(),
        seed=0,
        method=Method.model_validate({**METHOD, "reinforcement": reinforcement}),
        max_response_length=8,
    )
    return LearnerClient(Path(sys.executable), spec, tmp_path)


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No process of a test outlives it; those of fixtures of other tests may."""
    before = children()
    yield
    assert children() <= before


@pytest.mark.parametrize(
    ("learner", "arithmetic"),
    [({}, None), ({"exact_on_policy": True}, "AUTO,STRICT")],
    indirect=["learner"],
)
def test_learner_answers_and_exits_in_order(
    learner: LearnerClient,
    arithmetic: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(learner_process, "usable_cores", lambda: 6)
    length = 3
    sequence = TrainingSequence(
        token_ids=np.zeros(length, np.int32),
        mask=np.ones(length, np.bool_),
        sampler_log_probs=np.zeros(length, np.float32),
        policy_versions=np.zeros(length, np.int32),
    )
    TrainingBatch((sequence,)).save(tmp_path / "batch.npz")

    async def asking() -> None:
        async with learner:
            assert learner.trainable_parameters == 7
            assert await learner.update(0, tmp_path / "batch.npz") == {"tokens": 3.0}
            assert await learner.probe([[1, 2, 3], [4, 5]]) == [[-1.0, -1.0], [-1.0]]

    asyncio.run(asking())
    # Without a GPU it computes on all cores; sums that threads share are those of the engine.
    assert json.loads((tmp_path / ENDED).read_text()) == ["6", arithmetic]


def ask(learner: LearnerClient) -> LearnerFailed:
    async def asking() -> None:
        async with learner:
            await learner.probe([[1, 2]])

    with pytest.raises(LearnerFailed) as raised:
        asyncio.run(asking())
    return raised.value


@pytest.mark.parametrize(
    ("behavior", "message", "retryable"),
    [
        ("exit", "the learner ended with code 3", True),
        ("die", "the learner was ended by signal 9", True),
        ("garbage", "the learner's answer to probe cannot be read", False),
    ],
)
def test_dead_learner_costs_an_attempt_and_shows_its_log_tail(
    learner: LearnerClient, tmp_path: Path, behavior: str, message: str, retryable: bool
) -> None:
    (tmp_path / BEHAVIOR).write_text(behavior)
    error = ask(learner)
    assert (error.code, error.message, error.retryable) == ("learner_failed", message, retryable)
    assert error.log_tail[-1] == "the learner says something"


@pytest.mark.parametrize("moment", ["before it is asked", "with the question unread"])
def test_learner_killed_while_it_waits_costs_an_attempt(
    learner: LearnerClient, moment: str
) -> None:
    async def asking() -> None:
        before = children()
        async with learner:
            (process,) = [each for each in children() - before if not each.children()]
            if moment == "before it is asked":
                process.kill()
                process.wait(60)
                await learner.probe([[1, 2]])
            process.suspend()
            question = asyncio.create_task(learner.probe([[1, 2]]))
            await asyncio.sleep(0)  # sends it
            process.kill()
            await question

    with pytest.raises(LearnerFailed) as raised:
        asyncio.run(asking())
    assert raised.value.message == "the learner was ended by signal 9"
    assert raised.value.retryable


def test_learner_that_does_not_read_a_large_request_times_out(
    learner: LearnerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asking() -> None:
        before = children()
        async with learner:
            (process,) = [each for each in children() - before if not each.children()]
            process.suspend()
            monkeypatch.setattr(learner_process, "ANSWER_SECONDS", 0.2)
            try:
                async with asyncio.timeout(20):
                    await learner.probe([[1] * 1_000_000])
            finally:
                process.resume()

    with pytest.raises(LearnerFailed, match="did not answer probe"):
        asyncio.run(asking())


def test_error_reported_by_the_learner_is_kept(learner: LearnerClient, tmp_path: Path) -> None:
    (tmp_path / BEHAVIOR).write_text("fail")
    error = ask(learner)
    assert (error.code, error.message) == ("diverged", "the loss is nan")
    assert error.param == "learning_rate"
