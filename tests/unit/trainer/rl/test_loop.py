"""The loop of online training with a learner and an engine that a test controls."""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.contracts.errors import JobFailed
from services.contracts.rollouts.trajectories import Trajectory
from services.core.process.reporter import METRICS, REPORTS
from services.rollouts.log.log import read_indexed
from services.rollouts.log.updates import find_update
from services.trainer.rl.__main__ import cause_of
from tests.support.rl.parts import CountingLearner, SteadyEngine
from tests.support.rl.training import Run, method, questions
from tests.support.rl.virtual import run
from tests.support.rollouts import END_TEXT

SHORT, LONG = "ok" + END_TEXT, "x" * 40 + END_TEXT
PARTS = [
    *("generate_seconds", "reward_seconds", "update_seconds", "waiting_seconds", "tools_seconds"),
    *("batch_seconds", "probe_seconds", "sync_seconds", "evaluation_seconds", "checkpoint_seconds"),
]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def versions_of(sequence: Any) -> list[int]:
    return sorted({int(version) for version in sequence.policy_versions if version >= 0})


def sampler_of(learner: CountingLearner) -> list[list[int]]:
    """The numbers of the prompts that each batch was learned from."""
    return [sorted({sequence.group for sequence in each.sequences}) for each in learner.batches]


def test_without_staleness_training_is_strictly_on_policy(tmp_path: Path) -> None:
    engine = SteadyEngine(lambda text: LONG if "q1" in text else SHORT)
    job = Run(tmp_path, method(), engine, questions(5))
    position = run(job.play())
    assert position is not None
    assert (position.step, position.version) == (4, 4)
    for version, batch in enumerate(job.learner.batches):
        assert len(batch.sequences) == 4
        assert all(versions_of(sequence) == [version] for sequence in batch.sequences)
    assert engine.loaded == [0, 1, 2, 3, 4]
    assert engine.running_while_loading == [0] * 5


def test_slow_rollout_continues_across_updates_with_per_token_versions(
    tmp_path: Path,
) -> None:
    engine = SteadyEngine(lambda text: LONG if "q1" in text else SHORT)
    online = method(max_staleness=3, steps=6)
    job = Run(tmp_path, online, engine, questions(6), learner=CountingLearner(seconds=2.0))
    run(job.play())
    slow = [
        (step, sequence)
        for step, batch in enumerate(job.learner.batches)
        for sequence in batch.sequences
        if len(sequence.token_ids) > 41
    ]
    spanning = [each for each in slow if len(versions_of(each[1])) > 1]
    assert spanning, "no trajectory spans two versions"
    for step, sequence in slow:
        versions = [int(version) for version in sequence.policy_versions if version >= 0]
        assert versions == sorted(versions)
        assert len(versions) == 41
        assert step - versions[0] <= 3
    assert any(engine.running_while_loading)
    assert len(job.learner.batches) == 6


def test_rollouts_run_ahead_during_updates(tmp_path: Path) -> None:
    seconds = {}
    for staleness in (0, 1):
        folder = tmp_path / str(staleness)
        folder.mkdir()
        online = method(max_staleness=staleness, steps=10, checkpoint_steps=100)
        engine = SteadyEngine(lambda _: "x" * 9 + END_TEXT)
        learner = CountingLearner(seconds=10.0)
        job = Run(folder, online, engine, questions(8), learner=learner)

        async def timed(job: Run = job) -> float:
            await job.play()
            return asyncio.get_running_loop().time()

        seconds[staleness] = run(timed())
    assert seconds[0] == pytest.approx(10 * 20)
    assert seconds[1] == pytest.approx(10 * 10 + 10)


def test_the_parts_of_a_step_add_up_to_its_time(tmp_path: Path) -> None:
    for staleness in (0, 1):
        folder = tmp_path / str(staleness)
        folder.mkdir()
        online = method(max_staleness=staleness, steps=5, checkpoint_steps=2)
        engine = SteadyEngine(lambda _: "x" * 9 + END_TEXT)
        learner = CountingLearner(seconds=15.0)
        run(Run(folder, online, engine, questions(8), judge_seconds=2.0, learner=learner).play())

        steps = lines(folder / METRICS)
        assert len(steps) == 5
        for step in steps:
            whole = step.pop("step_seconds")
            assert sum(step[part] for part in PARTS if part in step) == pytest.approx(whole)
        # Rollouts that ran ahead during an update take no time of the next step.
        expected = [0.0, 0.0, 15.0, 0.0] if staleness else [10.0, 2.0, 15.0, 0.0]
        for step in steps[1:]:
            assert [step[part] for part in PARTS[:4]] == pytest.approx(expected)


def test_the_values_of_each_update_are_logged_with_its_trajectories(tmp_path: Path) -> None:
    engine = SteadyEngine(lambda _: SHORT)
    job = Run(tmp_path, method(), engine, questions(5))
    run(job.play())

    for trajectory in read_indexed(tmp_path):
        update = find_update(tmp_path, trajectory.id)
        assert update is not None
        assert update.step == trajectory.policy_versions[0] + 1  # strictly on-policy
        assert update.values is not None
        assert update.values[:, 0].tolist() == trajectory.response_token_ids
    assert list(tmp_path.glob("batch-*")) == []


@settings(max_examples=12, deadline=None)
@given(kills=st.lists(st.floats(0.5, 60.0), max_size=5), staleness=st.integers(0, 3))
def test_killed_training_neither_repeats_nor_skips_prompts(
    kills: list[float], staleness: int
) -> None:
    online = method(max_staleness=staleness, steps=9, checkpoint_steps=2)
    learned: dict[int, list[int]] = {}
    with TemporaryDirectory() as folder:
        for killed_after in [*kills, None]:
            engine = SteadyEngine(lambda text: "x" * (ord(text[-12]) % 11) + END_TEXT)
            learner = CountingLearner(seconds=3.0)
            job = Run(Path(folder), online, engine, questions(7), learner=learner)
            run(job.play(killed_after))
            learned |= dict(zip(learner.steps, sampler_of(learner), strict=True))
        metrics = [line["step"] for line in lines(Path(folder) / METRICS)]
        ids = [trajectory.id for trajectory in read_indexed(Path(folder))]
    assert sorted(learned) == list(range(9))
    assert metrics == list(range(1, 10))
    prompts = [draw for step in sorted(learned) for draw in learned[step]]
    assert len(prompts) == len(set(prompts)) == 18
    assert len(set(range(max(prompts))) - set(prompts)) <= 2 * staleness
    assert len(ids) == len(set(ids)) >= 36


@settings(max_examples=12, deadline=None)
@given(pauses=st.lists(st.floats(0.5, 60.0), max_size=5), staleness=st.integers(0, 3))
def test_paused_training_repeats_no_step_and_skips_no_prompt(
    pauses: list[float], staleness: int
) -> None:
    online = method(max_staleness=staleness, steps=9, checkpoint_steps=100, keep_checkpoints=1)
    learned: list[int] = []
    prompts: list[int] = []
    with TemporaryDirectory() as folder:
        position = None
        for paused_after in [*pauses, None]:
            engine = SteadyEngine(lambda text: "x" * (ord(text[-12]) % 11) + END_TEXT)
            learner = CountingLearner(seconds=3.0)
            job = Run(Path(folder), online, engine, questions(7), learner=learner)
            position = run(job.play(paused_after=paused_after))
            assert position is not None
            learned += learner.steps
            prompts += [draw for batch in sampler_of(learner) for draw in batch]
        metrics = [line["step"] for line in lines(Path(folder) / METRICS)]
        ids = [trajectory.id for trajectory in read_indexed(Path(folder))]
    assert position is not None
    assert position.step == 9
    assert learned == list(range(9))
    assert metrics == list(range(1, 10))
    assert len(prompts) == len(set(prompts)) == 18
    assert len(ids) == len(set(ids))


def test_a_pause_does_not_wait_for_slow_rollouts_and_keeps_the_finished_ones(
    tmp_path: Path,
) -> None:
    """A checkpoint of the step exists already; the pause adds what was sampled since."""
    engine = SteadyEngine(lambda text: LONG if "q1" in text else SHORT)
    job = Run(tmp_path, method(prompts_per_step=5), engine, questions(5))

    async def until_paused() -> float:
        position = await job.play(paused_after=50.0)  # in the middle of the second step
        assert position is not None
        assert position.step == 1
        return asyncio.get_running_loop().time()

    assert run(until_paused()) < 51.0
    again = SteadyEngine(lambda text: LONG if "q1" in text else SHORT)
    rest = Run(tmp_path, method(prompts_per_step=5), again, questions(5))
    run(rest.play())
    assert rest.learner.steps == [1, 2, 3]
    sampled = [trajectory.id for trajectory in read_indexed(tmp_path)]
    assert len(sampled) == len(set(sampled)) == 4 * 5 * 2


def test_step_reports_all_metrics(tmp_path: Path) -> None:
    run(Run(tmp_path, method(steps=1), SteadyEngine(lambda _: SHORT), questions(3)).play())
    metrics = lines(tmp_path / METRICS)[0]
    assert metrics["reward"] == 0.5
    assert metrics["reward/judge"] == 0.5
    assert metrics["pass_rate"] == 0.5
    assert metrics["response_length"] == 3.0
    assert metrics["cut_off_rate"] == 0.0
    assert metrics["tool_calls"] == 0.0
    assert metrics["staleness"] == 0.0
    assert metrics["group_filter_rate"] == 0.0
    assert metrics["generation_tokens_per_second"] > 0.0
    assert metrics["loss"] == 1.0
    for part in ("rollout", "batch", "update", "sync", "step"):
        assert metrics[f"{part}_seconds"] >= 0.0


def test_dynamic_sampling_replaces_groups_with_equal_rewards(tmp_path: Path) -> None:
    def judge(trajectory: Trajectory) -> float:
        return float(trajectory.sample_index) if trajectory.prompt_index % 2 else 1.0

    online = method(dynamic_sampling={"max_batches": 10}, steps=3)
    job = Run(tmp_path, online, SteadyEngine(lambda _: SHORT), questions(8), judge)
    run(job.play())
    for batch in job.learner.batches:
        assert len(batch.sequences) == 4
        assert {sequence.reward for sequence in batch.sequences} == {0.0, 1.0}
    assert sum(line["group_filter_rate"] for line in lines(tmp_path / METRICS)) > 0


def test_step_without_signal_is_skipped_with_a_warning(tmp_path: Path) -> None:
    online = method(dynamic_sampling={"max_batches": 2}, steps=2)
    engine = SteadyEngine(lambda _: SHORT)
    job = Run(tmp_path, online, engine, questions(8), judge=lambda _: 1.0)
    position = run(job.play())
    assert position is not None
    assert (position.step, position.version) == (2, 0)
    assert job.learner.batches == []
    warnings = [r for r in lines(tmp_path / REPORTS) if r.get("level") == "warn"]
    assert "nothing was learned" in warnings[0]["message"]
    assert sum(1 for _ in read_indexed(tmp_path)) == 2 * 4 * 2


def test_group_is_trained_without_its_failed_samples(tmp_path: Path) -> None:
    def judge(trajectory: Trajectory) -> float | None:
        return None if trajectory.sample_index == 0 else float(trajectory.sample_index)

    online = method(samples_per_prompt=3, steps=1)
    job = Run(tmp_path, online, SteadyEngine(lambda _: SHORT), questions(8), judge)
    run(job.play())
    assert [s.reward for s in job.learner.batches[0].sequences] == [1.0, 2.0, 1.0, 2.0]
    assert lines(tmp_path / METRICS)[0]["unrewarded_rate"] == pytest.approx(1 / 3)


def test_training_fails_with_the_reason_when_every_rollout_fails(tmp_path: Path) -> None:
    job = Run(tmp_path, method(), SteadyEngine(lambda _: SHORT), questions(3), lambda _: None)
    with pytest.raises(ExceptionGroup) as raised:
        run(job.play())
    cause = cause_of(raised.value)
    assert isinstance(cause, JobFailed)
    assert cause.code == "rollouts_failed"
    assert "no judge" in cause.message


def test_too_long_prompts_are_skipped(tmp_path: Path) -> None:
    rows = questions(6)
    rows[2].prompt.messages[0]["content"] = "q" * 100
    job = Run(tmp_path, method(max_prompt_length=30), SteadyEngine(lambda _: SHORT), rows)
    run(job.play())
    assert all(len(s.token_ids) < 40 for b in job.learner.batches for s in b.sequences)
    assert lines(tmp_path / METRICS)[-1]["prompts_skipped"] >= 1


def test_skipped_prompts_are_counted_across_a_restart(tmp_path: Path) -> None:
    rows = questions(2)
    rows[1].prompt.messages[0]["content"] = "q" * 100
    online = method(max_prompt_length=30, steps=6, prompts_per_step=1)
    first = Run(tmp_path, online, SteadyEngine(lambda _: SHORT), rows)
    assert run(first.play(killed_after=14.0)) is None
    run(Run(tmp_path, online, SteadyEngine(lambda _: SHORT), rows).play())
    skipped = [line["prompts_skipped"] for line in lines(tmp_path / METRICS)]
    assert skipped == sorted(skipped)
    assert skipped[-1] >= 5


def test_step_reports_the_reward_of_its_own_batch(tmp_path: Path) -> None:
    def judge(trajectory: Trajectory) -> float:
        return float(trajectory.sample_index) if trajectory.prompt_index % 2 else 1.0

    online = method(dynamic_sampling={"max_batches": 10}, steps=3)
    run(Run(tmp_path, online, SteadyEngine(lambda _: SHORT), questions(8), judge).play())
    metrics = lines(tmp_path / METRICS)
    for name in ("reward", "pass_rate"):
        assert {line[name] for line in metrics} == {0.5}
        assert max(line[f"rollout_{name}"] for line in metrics) > 0.5
    assert {line["response_length"] for line in metrics} == {3.0}


def test_training_without_usable_prompts_says_why(tmp_path: Path) -> None:
    job = Run(tmp_path, method(max_prompt_length=5), SteadyEngine(lambda _: SHORT), questions(2))
    with pytest.raises(ExceptionGroup) as raised:
        run(job.play())
    assert "tokens; max_prompt_length is 5" in str(cause_of(raised.value))


def test_overlong_penalty_lowers_rewards(tmp_path: Path) -> None:
    online = method(sampling={"max_tokens": 12}, overlong={"buffer": 4}, steps=1)
    engine = SteadyEngine(lambda _: "x" * 9 + END_TEXT)
    job = Run(tmp_path, online, engine, questions(3))
    run(job.play())
    assert sorted({s.reward for s in job.learner.batches[0].sequences}) == [-0.5, 0.5]
    assert lines(tmp_path / METRICS)[0]["overlong_penalty"] == -0.5


def test_sleeping_engine_is_awake_when_sampling(tmp_path: Path) -> None:
    engine = SteadyEngine(lambda _: SHORT)
    position = run(Run(tmp_path, method(), engine, questions(3), sleeps=True).play())
    assert position is not None
    assert position.version == 4
