"""Samples that the infrastructure lost change nothing but their number, and outages pause a job."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory
from services.contracts.training.online import ReinforcementMethod
from services.core.process.outages import Outages
from services.core.process.reporter import METRICS, REPORTS
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.rollouts.log.log import read_indexed
from services.rollouts.tools.base import ToolReply
from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.checkpoints import (
    PendingGroup,
    PendingSample,
    TrainingCheckpoint,
    TrainingPosition,
)
from services.trainer.rl.groups import GroupConfig, restored_groups
from services.trainer.rl.loop import MAX_SKIPPED
from services.trainer.rl.prompts import PromptSampler
from tests.support.rl.parts import SteadyEngine
from tests.support.rl.training import Run, method, questions
from tests.support.rl.virtual import run
from tests.support.rollouts import END_TEXT, CharacterChat, FunctionToolbox, hermes, tokens

MULTI_TURN = {"multi_turn_enable": True, "max_total_response_length": 1000}


def chance(*what: object) -> float:
    """A number from 0 to 1 that depends on nothing else."""
    return int.from_bytes(blake2b(repr(what).encode(), digest_size=4).digest()) / 2**32


@dataclass
class SeededEngine(SteadyEngine):
    """Calls the tool with the turn's seed, then answers with as many letters as that says."""

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        seed = sampling.seed or 0
        asked = "tool:" not in CharacterChat().text(token_ids)
        text = hermes("work", text=str(seed)) if asked else "x" * (1 + seed % 7)
        ids = tokens(text + END_TEXT)
        version = (self.version,) * len(ids)
        return SampledTokens(tuple(ids), tuple(-chance(seed, n) for n in ids), version, "stop")


@dataclass
class FailingToolbox(FunctionToolbox):
    """A share of the calls always fails (``lost``), and as many succeed when they are repeated."""

    lost: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        text = (arguments or {})["text"]
        self.calls[text] += 1
        is_lost = chance("lost", text) < self.lost
        is_flaky = self.calls[text] == 1 and chance("flaky", text) < self.lost
        if is_lost or is_flaky:
            cause = InfrastructureCause.RESET
            return ToolReply(CallOutcome.FAILED, "Error", "reset", 1, 0.0, None, cause, 1)
        return ToolReply(CallOutcome.ANSWERED, text, None, 1, 0.0)


def tool(lost: float = 0.0) -> FailingToolbox:
    async def work(text: str) -> str:
        return text

    return FailingToolbox({"work": work}, lost=lost)


def by_length(trajectory: Trajectory) -> float:
    return float(len(trajectory.turns[-1].text))


def online(prompts: int, **settings: Any) -> ReinforcementMethod:
    shape = {"prompts_per_step": prompts, "samples_per_prompt": 8, "steps": 1}
    return method(multi_turn=MULTI_TURN, **(shape | settings))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def warnings(folder: Path) -> list[str]:
    return [each["message"] for each in lines(folder / REPORTS) if each.get("level") == "warn"]


def saved(batch: TrainingBatch, path: Path) -> bytes:
    batch.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("prompts", [16, pytest.param(1250, marks=pytest.mark.long)])
def test_a_batch_is_byte_for_byte_that_of_a_run_without_the_lost_samples(
    tmp_path: Path, prompts: int
) -> None:
    """Two in ten rollouts meet a failing call: half of them are repaired, the others lost."""
    folders = [tmp_path / name for name in ("failing", "without", "healthy")]
    for folder in folders:
        folder.mkdir()
    rows = questions(prompts)
    shape, engine = online(prompts), SeededEngine(str)
    failing = Run(folders[0], shape, engine, rows, by_length, toolbox=tool(0.1))
    run(failing.play())
    ended = list(read_indexed(folders[0]))
    lost = {each.id for each in ended if each.left_out is not None}
    assert 0.05 < len(lost) / (8 * prompts) < 0.2
    assert any(each.plays == 2 and each.left_out is None for each in ended)

    def without(trajectory: Trajectory) -> float | None:
        return None if trajectory.id in lost else by_length(trajectory)

    never = Run(folders[1], shape, SeededEngine(str), rows, without, toolbox=tool())
    healthy = Run(folders[2], shape, SeededEngine(str), rows, by_length, toolbox=tool())
    run(never.play())
    run(healthy.play())

    (batch,), (expected,), (everything,) = (
        each.learner.batches for each in (failing, never, healthy)
    )
    assert saved(batch, tmp_path / "a.npz") == saved(expected, tmp_path / "b.npz")
    assert len(batch.sequences) == 8 * prompts - len(lost)
    kept = [each for each in ordered(read_indexed(folders[2])) if each.id not in lost]
    assert [each.reward for each in batch.sequences] == [each.reward for each in kept]
    assert len(everything.sequences) == 8 * prompts
    metrics, complete = (lines(folder / METRICS)[0] for folder in (folders[0], folders[1]))
    assert metrics["samples_left_out"] == len(lost)
    failures = Counter(each.id for each in ended for _ in range(each.plays - 1))
    assert metrics["infrastructure_failures/work"] == failures.total() + len(lost)
    for name in ("reward", "reward_std", "pass_rate"):
        assert metrics[name] == complete[name]
    assert metrics["response_length"] == np.mean([len(each.response_token_ids) for each in kept])
    assert metrics["sample_failure_rate"] == 0.0


def ordered(trajectories: Any) -> list[Trajectory]:
    """In the order of their draws."""
    return sorted(trajectories, key=lambda each: [int(part) for part in each.id.split("-")[1:]])


def test_a_step_that_lost_too_much_is_repeated_with_new_prompts(tmp_path: Path) -> None:
    toolbox = tool(0.4)
    job = Run(tmp_path, online(4), SeededEngine(str), questions(8), by_length, toolbox=toolbox)

    async def until_repaired() -> None:
        toolbox.lost = 0.4
        await job.play()

    job.learner.seconds = 0.0
    original = job.engine.generate

    async def repairing(token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        if sum(toolbox.calls.values()) > 60:  # the first attempt at the step is over
            toolbox.lost = 0.0
        return await original(token_ids, sampling)

    job.engine.generate = repairing  # type: ignore[method-assign]  # a fault of the test
    run(until_repaired())
    assert len(job.learner.batches) == 1
    assert {each.group for each in job.learner.batches[0].sequences} == {4, 5, 6, 7}
    assert any("more than skip_share (25%)" in each for each in warnings(tmp_path))
    assert [line["step"] for line in lines(tmp_path / METRICS)] == [1]


def test_a_job_is_paused_when_most_rollouts_are_lost_and_resumes(tmp_path: Path) -> None:
    shape = online(2, steps=3, checkpoint_steps=100)
    toolbox = tool()
    job = Run(tmp_path, shape, SeededEngine(str), questions(50), by_length, toolbox=toolbox)
    original = job.learner.update

    async def breaking(step: int, batch: Path) -> dict[str, float]:
        toolbox.lost = 1.0  # from the second step on
        return await original(step, batch)

    job.learner.update = breaking  # type: ignore[method-assign]  # a fault of the test
    position = run(job.play())
    assert position is not None
    assert position.step == 1
    assert job.watch is not None
    assert job.watch.outage is not None
    assert "reset: work: reset" in job.watch.outage.message
    assert list((tmp_path / "output").glob("checkpoint-1/state.json"))
    assert Outages(tmp_path).begin(job.watch.outage).seconds == 30.0

    rest = Run(tmp_path, shape, SeededEngine(str), questions(50), by_length, toolbox=tool())
    position = run(rest.play())
    assert position is not None
    assert (position.step, rest.learner.steps) == (3, [1, 2])


def test_a_job_waits_when_every_attempt_at_a_step_loses_too_much(tmp_path: Path) -> None:
    toolbox = tool(0.4)
    job = Run(tmp_path, online(4), SeededEngine(str), questions(40), by_length, toolbox=toolbox)
    position = run(job.play())
    assert position is not None
    assert (position.step, job.learner.batches) == (0, [])
    assert job.watch is not None
    assert f"{MAX_SKIPPED} attempts at step 1" in str(job.watch.outage)
    assert sum("skip_share" in each for each in warnings(tmp_path)) == MAX_SKIPPED


def test_lost_rollouts_are_reported_by_source(tmp_path: Path) -> None:
    toolbox = tool(1.0)
    shape = online(8, infrastructure={"pause_share": 1.0})
    job = Run(tmp_path, shape, SeededEngine(str), questions(40), by_length, toolbox=toolbox)
    run(job.play())
    (first, *more) = [each for each in warnings(tmp_path) if each.startswith("work: ")]
    assert first == "work: 1 rollout left out so far; the last: reset: work: reset"
    assert len(more) == 6
    reasons = {each.finish_reason for each in read_indexed(tmp_path)}
    assert reasons == {FinishReason.TOOL_UNAVAILABLE}


def test_rewards_that_fail_without_an_outage_are_reported(tmp_path: Path) -> None:
    def judge(trajectory: Trajectory) -> float | None:
        return None if trajectory.sample_index == 0 else float(trajectory.sample_index)

    job = Run(tmp_path, online(2), SeededEngine(str), questions(4), judge, toolbox=tool())
    run(job.play())
    (first, _) = [each for each in warnings(tmp_path) if "no reward" in each]
    assert first == "1 rollout got no reward so far; the last: no judge"


def test_evaluations_of_the_policy_leave_out_what_is_lost(tmp_path: Path) -> None:
    judged: dict[str, set[str]] = {"failing": set(), "without": set()}

    def evaluated(name: str, toolbox: FailingToolbox) -> dict[str, Any]:
        def judge(trajectory: Trajectory) -> float | None:
            if not trajectory.finish_reason.is_failure:
                judged[name].add(trajectory.id)
            is_lost = name == "without" and trajectory.id not in judged["failing"]
            return None if is_lost else by_length(trajectory)

        folder = tmp_path / name
        folder.mkdir()
        shape = online(1, eval_samples=4, infrastructure={"skip_share": 1.0, "pause_share": 1.0})
        rows = questions(12)
        engine = SeededEngine(str)
        job = Run(folder, shape, engine, rows, judge, toolbox=toolbox, held_out=rows)
        run(job.play())
        return lines(folder / METRICS)[0]

    failing, without = evaluated("failing", tool(0.2)), evaluated("without", tool())
    assert failing["step"] == without["step"] == 0
    assert 0 < failing["eval_samples_left_out"] < 24
    assert failing["eval_infrastructure_failures/work"] > failing["eval_samples_left_out"]
    assert failing["eval_reward"] == without["eval_reward"]
    assert failing["eval_pass_rate"] == without["eval_pass_rate"]
    assert without["eval_samples_left_out"] == 0


def test_samples_that_were_left_out_are_sampled_again_after_a_pause() -> None:
    lost = LeftOut(source="work", cause=InfrastructureCause.RESET, message="reset")
    samples = [
        Trajectory(
            id=f"traj-0-{index}",
            prompt_index=0,
            sample_index=index,
            messages=[],
            prompt_token_ids=[1],
            finish_reason=FinishReason.ANSWERED,
            left_out=lost if index == 1 else None,
        )
        for index in range(3)
    ]

    class Checkpoint(TrainingCheckpoint):
        def position(self) -> TrainingPosition:
            return TrainingPosition(groups=(PendingGroup(number=0, started=0),))

        def samples(self) -> Iterator[PendingSample]:
            return (PendingSample(group=0, trajectory=sample) for sample in samples)

    prompts = PromptSampler(questions(1), 0, lambda _: 1, 10)
    (group,) = restored_groups(Checkpoint(Path()), prompts, GroupConfig(3))
    assert group.missing == [1]
