"""Evaluating the policy on prompts that it is not trained on."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.contracts.errors import JobFailed
from services.contracts.rollouts.trajectories import Trajectory
from services.core.process.reporter import METRICS, REPORTS, Reporter
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.trainer.rl.evaluation import BATCH, DivergenceEvaluation, PolicyEvaluation
from services.trainer.rl.groups import BatchBuilder
from services.trainer.rl.prompts import PromptSampler, SampledPrompt, TrainingPrompt, read_row
from tests.support.rl.parts import CountingLearner, SteadyEngine
from tests.support.rl.training import Run, method, questions
from tests.support.rl.virtual import run
from tests.support.rollouts import END_TEXT, CharacterChat


def held_out(count: int) -> list[TrainingPrompt]:
    return [read_row({"question": f"h{n}", "gold": "g"}, n, "plain") for n in range(count)]


def is_held_out(trajectory: Trajectory) -> bool:
    return bool(trajectory.messages[0]["content"].startswith("h"))


def answer(_: str) -> str:
    return "xxxx" + END_TEXT


def version_of(trajectory: Trajectory) -> float:
    """The version that sampled all of it."""
    (version,) = set(trajectory.policy_versions)
    return float(version)


def judge(trajectory: Trajectory) -> float:
    return version_of(trajectory) if is_held_out(trajectory) else float(trajectory.sample_index)


def metrics_of(folder: Path) -> dict[int, dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    steps = [line["step"] for line in lines]
    assert len(steps) == len(set(steps))
    return {line["step"]: line for line in lines}


def rewards_by_step(folder: Path) -> dict[int, float]:
    return {
        step: metrics["eval_reward"]
        for step, metrics in metrics_of(folder).items()
        if "eval_reward" in metrics
    }


@pytest.mark.parametrize("staleness", [0, 2])
def test_each_evaluation_uses_the_policy_of_its_step(tmp_path: Path, staleness: int) -> None:
    online = method(steps=5, eval_interval=2, max_staleness=staleness)
    engine, learner = SteadyEngine(answer), CountingLearner(seconds=3.0)
    run(
        Run(
            tmp_path, online, engine, questions(6), judge, learner=learner, held_out=held_out(3)
        ).play()
    )
    assert rewards_by_step(tmp_path) == {0: 0.0, 2: 2.0, 4: 4.0, 5: 5.0}
    metrics = metrics_of(tmp_path)[4]
    assert metrics["eval_reward/judge"] == 4.0
    assert metrics["eval_reward_std"] == 0.0
    assert metrics["eval_response_length"] == 5.0
    assert metrics["eval_pass_rate"] == 1.0
    assert metrics["evaluation_seconds"] > 0.0


class SeedKeeper(SteadyEngine):
    """Records its prompts and seeds by policy version."""

    def __init__(self) -> None:
        super().__init__(answer)
        self.asked: dict[int, list[tuple[str, int | None]]] = {}

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        text = CharacterChat().text(token_ids)
        if "user:h" in text:
            self.asked.setdefault(self.version, []).append((text, sampling.seed))
        return await super().generate(token_ids, sampling)


def test_evaluations_differ_by_the_policy_only(tmp_path: Path) -> None:
    engine = SeedKeeper()
    online = method(steps=2, eval_interval=1, eval_samples=3)
    run(Run(tmp_path, online, engine, questions(4), judge, held_out=held_out(4)).play())
    first, second, third = (sorted(engine.asked[version]) for version in range(3))
    assert first == second == third
    assert len({text for text, _ in first}) == 4
    assert len(set(first)) == 12


@settings(max_examples=8)
@given(kills=st.lists(st.floats(0.5, 40.0), max_size=4))
def test_killed_training_reports_each_evaluation_once(
    tmp_path_factory: pytest.TempPathFactory, kills: list[float]
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    online = method(steps=5, eval_interval=2, checkpoint_steps=2)
    for killed_after in [*kills, None]:
        engine, learner = SteadyEngine(answer), CountingLearner(seconds=3.0)
        job = Run(
            folder, online, engine, questions(6), judge, learner=learner, held_out=held_out(3)
        )
        run(job.play(killed_after))
    assert rewards_by_step(folder) == {0: 0.0, 2: 2.0, 4: 4.0, 5: 5.0}
    assert sorted(metrics_of(folder)) == list(range(6))


def test_evaluation_without_usable_samples_warns(tmp_path: Path) -> None:
    def unkind(trajectory: Trajectory) -> float | None:
        return None if is_held_out(trajectory) else float(trajectory.sample_index)

    online = method(steps=1, checkpoint_steps=1)
    run(
        Run(
            tmp_path, online, SteadyEngine(answer), questions(4), unkind, held_out=held_out(2)
        ).play()
    )
    reports = [json.loads(line) for line in (tmp_path / REPORTS).read_text().splitlines()]
    warnings = [report["message"] for report in reports if report.get("level") == "warn"]
    warnings = [message for message in warnings if "no prompt" in message]
    reason = "no prompt of the validation file could be evaluated; the first: no judge"
    assert warnings == [reason, reason]
    assert "eval_reward" not in metrics_of(tmp_path)[1]
    assert metrics_of(tmp_path)[1]["reward"] == 0.5


def test_long_evaluation_reports_progress(tmp_path: Path) -> None:
    online = method(steps=1, eval_samples=4, max_concurrency=2)
    engine = SteadyEngine(lambda _: "x" * 19 + END_TEXT)
    run(Run(tmp_path, online, engine, questions(4), judge, held_out=held_out(2)).play())
    reports = [json.loads(line) for line in (tmp_path / REPORTS).read_text().splitlines()]
    said = [report["message"] for report in reports if report["type"] == "message"]
    assert said == ["Evaluated 3 of 8 samples", "Evaluated 7 of 8 samples"] * 2


class Answering:
    """A source whose every answer is the same."""

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        return Trajectory.model_validate(
            {
                "id": f"{draw.number}-{index}",
                "prompt_index": draw.prompt.index,
                "messages": [],
                "prompt_token_ids": [1, 2],
                "response_token_ids": [3],
                "response_mask": [1],
                "log_probs": [0.0],
                "policy_versions": [-1],
                "finish_reason": "answered",
            }
        )


def test_evaluation_without_rewards_measures_the_loss(tmp_path: Path) -> None:
    learner = CountingLearner(updates=7)
    evaluation = PolicyEvaluation(
        prompts=[SampledPrompt(number, row) for number, row in enumerate(held_out(3))],
        source=Answering(),
        samples=2,
        max_concurrency=2,
        pass_threshold=None,
        reporter=Reporter(tmp_path),
        divergence=DivergenceEvaluation(BatchBuilder(8), learner, tmp_path),
    )
    metrics = asyncio.run(evaluation.metrics())
    assert metrics["eval_loss"] == 7.0
    assert metrics["eval_sequences"] == 6.0
    assert "eval_reward" not in metrics
    assert learner.batches == []
    assert not (tmp_path / BATCH).exists()


def test_unusable_evaluation_prompts_are_skipped_or_name_their_file() -> None:
    def drawn(longest: int) -> list[SampledPrompt]:
        rows = held_out(3)
        rows[1].prompt.messages[0]["content"] = "h" * 100
        prompts = PromptSampler(
            rows,
            seed=1,
            length_of=lambda prompt: len(str(prompt.messages[0]["content"])),
            max_length=longest,
            param="validation_file",
        )
        return prompts.usable()

    assert sorted(draw.prompt.index for draw in drawn(10)) == [0, 2]
    with pytest.raises(JobFailed) as raised:
        drawn(1)
    assert raised.value.param == "validation_file"
    assert "max_prompt_length is 1" in raised.value.message


def test_two_sources_are_trained_by_weight_and_told_apart(tmp_path: Path) -> None:
    def rows(*sources: str) -> list[TrainingPrompt]:
        return [
            read_row({"question": f"q{n}", "gold": "g", "source": source}, n, "plain")
            for n, source in enumerate(sources)
        ]

    def worth(trajectory: Trajectory) -> float:
        first = {"math": 1.0, "shop": 0.25}[trajectory.extra["source"]]
        return first * (1 + trajectory.sample_index)

    job = Run(
        tmp_path,
        method(steps=10, prompts_per_step=4, source_weights={"math": 1, "shop": 3}),
        SteadyEngine(answer),
        rows("math", "shop", "unused"),
        judge=worth,
        held_out=rows("shop", "math"),
    )
    run(job.play())

    told = metrics_of(tmp_path)
    samples = {
        name: sum(step.get(f"source_samples/{name}", 0.0) for step in told.values())
        for name in ("math", "shop", "unused")
    }
    assert samples["unused"] == 0
    assert (samples["math"], samples["shop"]) == (20, 60)
    shop = [step["source_reward/shop"] for step in told.values() if "source_reward/shop" in step]
    assert set(shop) == {0.375}
    last = told[10]
    assert last["eval_source_reward/math"] == 1.0
    assert last["eval_source_reward/shop"] == 0.25
    assert (last["eval_source_pass_rate/math"], last["eval_source_pass_rate/shop"]) == (1.0, 0.0)
