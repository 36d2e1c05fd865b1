"""When a training drafts: the replay of drafts, and the comparison of an engine with itself."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.engine import Drafts
from services.contracts.rollouts.trajectories import Trajectory
from services.core.process.reporter import REPORTS, Reporter
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.counters import EngineCounters
from services.trainer.rl.policy_server.sampling_time import SamplingTime
from services.trainer.rl.speculation import Lookup, Replay, Speculation
from tests.support.trajectories import trajectory
from tests.support.virtual_time import run_in_virtual_time

DRAFTS = Drafts(tokens=3, min_match=2, max_match=3)
REPEATS = [1, 2, 3, 4, 5] * 40
VARIES = list(range(1000, 1200))
STEP = 30.0


def replayed(
    response: list[int], mask: list[bool] | None = None, prompt: Sequence[int] = ()
) -> Replay:
    replay = Replay()
    replay.add(DRAFTS, prompt, response, mask or [True] * len(response))
    return replay


def test_drafts_continue_the_longest_match_where_it_occurred_first() -> None:
    assert Lookup(DRAFTS, [1, 2, 9, 5, 1, 2, 8, 7, 1, 2]).draft() == [9, 5, 1]
    assert Lookup(DRAFTS, [1, 2, 9, 5, 1, 2, 8, 5, 1, 2]).draft() == [8, 5, 1], "5, 1, 2 is longer"
    assert Lookup(DRAFTS, [4, 4, 4]).draft() == [4], "a match may overlap with the end"
    assert Lookup(DRAFTS, [1, 2, 3]).draft() == []
    assert Lookup(DRAFTS, [1]).draft() == []


def test_a_pass_gives_the_accepted_tokens_and_one_more() -> None:
    # 1 2 | 3 | 9 | 1 | 2 | 3 9 1 7: the last draft is accepted as a whole.
    assert replayed([3, 9, 1, 2, 3, 9, 1, 7], prompt=[1, 2]) == Replay(tokens=8, passes=5)
    # The draft 3 9 1 is rejected at its second token.
    assert replayed([3, 9, 1, 2, 3, 8], prompt=[1, 2]) == Replay(tokens=6, passes=5)


def test_tokens_of_tools_are_read_and_end_a_pass() -> None:
    prompt, response = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 1, 2, 3, 4]
    mask = [True, True, True, False, True, True, True, True]

    assert replayed(response, mask, prompt) == Replay(tokens=7, passes=6)


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=9))
def test_every_pass_gives_a_token_and_a_draft_at_most(
    response: list[int], prompt: list[int]
) -> None:
    replay = replayed(response, prompt=prompt)

    assert replay.tokens == len(response)
    assert replay.passes <= replay.tokens <= replay.passes * (DRAFTS.tokens + 1)


@dataclass
class Engine:
    """Samples so many tokens a second, without and with drafts; two thirds of the drafted tokens
    are accepted, and make two thirds of all."""

    rates: dict[bool, float]
    sampling: SamplingTime
    starts: list[Drafts | None] = field(default_factory=list)
    switched: list[bool] = field(default_factory=list)
    startup_seconds: float = 10.0
    refuses: str | None = None
    fails_at: int = 10**9
    drafts: bool = False

    def __post_init__(self) -> None:
        self._tokens = {False: 0.0, True: 0.0}
        self._until = 0.0

    @property
    def sampling_seconds(self) -> float:
        return self.sampling.seconds

    async def speculate(self, drafts: Drafts | None) -> str | None:
        self.starts.append(drafts)
        if self.refuses is None:
            self._count()
            self.drafts = drafts is not None
        return self.refuses

    async def draft(self, *, on: bool) -> None:
        self._count()
        self.switched.append(on)
        self.drafts = on
        if len(self.switched) == self.fails_at:
            raise EngineFailed("it was killed")

    async def counters(self) -> EngineCounters:
        self._count()
        drafted = self._tokens[True]
        return EngineCounters(self._tokens[False] + drafted, drafted, drafted * 2 / 3)

    def _count(self) -> None:
        now = self.sampling.seconds
        self._tokens[self.drafts] += (now - self._until) * self.rates[self.drafts]
        self._until = now


def spoken(response: list[int], version: int) -> Trajectory:
    """A rollout of a version of the policy; -1: an answer of the data, or of a teacher."""
    return trajectory().model_copy(
        update={
            "response_token_ids": response,
            "response_mask": [1] * len(response),
            "policy_versions": [version] * len(response),
        }
    )


@dataclass
class Job:
    """A training of ``steps`` steps that sample ``response`` for half a minute each, beside answers
    of the data."""

    folder: Path
    response: list[int]
    of_others: list[int] = field(default_factory=list)
    steps: int = 400
    rates: dict[bool, float] = field(default_factory=lambda: {False: 100.0, True: 200.0})
    drafts: Drafts | None = None
    is_open: bool = True
    refuses: str | None = None
    fails_at: int = 10**9
    metrics: list[dict[str, float]] = field(default_factory=list)

    def run(self, played: int = 12) -> Engine:
        return run_in_virtual_time(self._run(played))

    async def _run(self, played: int) -> Engine:
        sampling = SamplingTime()
        requests = sampling.add_server()
        engine = Engine(self.rates, sampling, refuses=self.refuses, fails_at=self.fails_at)
        engine.drafts = self.drafts is not None
        speculation = Speculation(
            engine, Reporter(self.folder), drafts=self.drafts, is_open=self.is_open
        )
        rollout, answer = spoken(self.response, version=0), spoken(self.of_others, version=-1)
        for step in range(1, played + 1):
            with requests.request():
                await asyncio.sleep(STEP)
            await asyncio.sleep(STEP)  # the update
            speculation.observe(rollout)
            speculation.observe(answer)
            self.metrics.append(await speculation.metrics())
            await speculation.after_step(self.steps - step)
        await speculation.close()
        return engine

    @property
    def told(self) -> str:
        lines = (self.folder / REPORTS).read_text().splitlines() if self.metrics else []
        return " | ".join(json.loads(line).get("message", "") for line in lines)


def test_drafts_that_pay_are_kept(tmp_path: Path) -> None:
    job = Job(tmp_path, REPEATS)

    engine = job.run()

    assert engine.starts == [Drafts()], "once, and it goes on as it is"
    assert engine.switched.count(True) == engine.switched.count(False) + 1
    assert engine.drafts
    assert [each["draft_speedup"] for each in job.metrics if "draft_speedup" in each] == [
        pytest.approx(2.0)
    ]
    assert job.metrics[0] == job.metrics[1] == {}, "no drafts in the first minute"
    assert job.metrics[-1] == {
        "accepted_length": pytest.approx(3.0),
        "draft_acceptance_rate": pytest.approx(2 / 3),
    }
    assert "goes on with drafts: with drafts it samples 2.00 times as fast" in job.told


def test_drafts_that_are_accepted_but_slower_are_given_up(tmp_path: Path) -> None:
    job = Job(tmp_path, REPEATS, rates={False: 100.0, True: 104.0})

    engine = job.run()

    assert engine.starts == [Drafts(), None]
    assert not engine.drafts
    assert job.metrics[-1] == {}
    assert "goes on without drafts: with drafts it samples 1.04 times as fast" in job.told


def test_an_engine_whose_drafts_would_be_rejected_never_drafts(tmp_path: Path) -> None:
    job = Job(tmp_path, VARIES)

    assert job.run().starts == []
    assert "Drafts would give 1.00 tokens per forward pass: too few" in job.told


def test_answers_of_the_data_foretell_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, VARIES, of_others=REPEATS)

    assert job.run().starts == []
    assert "Drafts would give 1.00 tokens per forward pass: too few" in job.told


def test_an_engine_is_not_restarted_for_the_last_steps(tmp_path: Path) -> None:
    job = Job(tmp_path, REPEATS, steps=3)

    assert job.run(played=3).starts == []
    assert "the engine is not restarted" in job.told


def test_nothing_is_decided_in_the_first_minute(tmp_path: Path) -> None:
    job = Job(tmp_path, REPEATS)

    assert job.run(played=1).starts == []


def test_an_engine_that_cannot_draft_goes_on_without(tmp_path: Path) -> None:
    job = Job(tmp_path, REPEATS, refuses="vLLM exited with code 1")

    assert job.run().switched == []
    assert "does not start with drafts, and goes on without: vLLM exited" in job.told
    assert job.metrics[-1] == {}


def test_an_engine_that_fails_while_it_is_compared_goes_on_without(tmp_path: Path) -> None:
    job = Job(tmp_path, REPEATS, fails_at=5)

    assert job.run().starts == [Drafts(), None]
    assert "the comparison failed: it was killed" in job.told


def test_asked_drafts_are_neither_compared_nor_given_up(tmp_path: Path) -> None:
    job = Job(tmp_path, VARIES, drafts=DRAFTS)

    engine = job.run(played=3)

    assert (engine.starts, engine.switched) == ([], [])
    assert all(each["accepted_length"] == pytest.approx(3.0) for each in job.metrics)


def test_an_engine_without_drafts_by_request_is_left_alone(tmp_path: Path) -> None:
    job = Job(tmp_path, REPEATS, is_open=False)

    assert job.run().starts == []
    assert not (tmp_path / REPORTS).exists() or job.told == ""
