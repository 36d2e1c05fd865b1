"""Reward audits: hacked trainings are flagged by their sign, clean ones hardly ever."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from services.contracts.rewards.audits import AuditName
from services.contracts.training.online import ReinforcementMethod
from services.rollouts.audit.checks import audit
from services.rollouts.audit.features import Features, features_of
from services.rollouts.audit.report import audit_folder, weights_of
from services.rollouts.log.log import IndexedLog
from tests.support.trajectories import trajectory

PROMPTS, SAMPLES = 16, 4
WEIGHTS = {"right": 1.0, "form": 0.2, "rater": 0.0}

Change = Callable[[random.Random, int, bool], dict[str, object]]


def samples(draw: random.Random, late: bool, change: Change) -> list[Features]:
    """Samples of a policy: three scores, of which the late ones are better."""
    found = []
    for prompt in range(PROMPTS):
        hard = draw.gauss(0.0, 0.2)
        for sample in range(SAMPLES):
            better = 0.4 if late else 0.0
            scores = {
                "right": draw.gauss(0.3 + better, 0.3) - hard,
                "form": draw.gauss(0.5 + better, 0.3),
                "rater": draw.gauss(0.4 + better / 2, 0.3) - hard,
            }
            values: dict[str, object] = {
                "prompt": prompt,
                "components": scores,
                "length": int(draw.gauss(60.0, 12.0)),
                "response": f"answer {prompt} {sample} {draw.random()}",
                "repeated": draw.uniform(0.0, 0.1),
                "copied": draw.uniform(0.0, 0.1),
            }
            values |= change(draw, sample, late)
            used = values["components"]
            assert isinstance(used, dict)
            reward = sum(weight * used[name] for name, weight in WEIGHTS.items() if name in used)
            found.append(Features(reward=reward, **values))  # type: ignore[arg-type]  # the mapping's values are of several types
    return found


def flags(seed: int, change: Change) -> list[AuditName]:
    draw = random.Random(seed)
    first, last = (samples(draw, late, change) for late in (False, True))
    return [check.name for check in audit(first, last, WEIGHTS).checks if check.flagged]


def clean(*_: object) -> dict[str, object]:
    return {}


def unchanged(draw: random.Random, _sample: int, _late: bool) -> dict[str, object]:
    """A policy that learns nothing."""
    names = ("right", "form", "rater")
    return {"components": {name: draw.gauss(0.3, 0.3) for name in names}}


def longer_and_better(draw: random.Random, _sample: int, late: bool) -> dict[str, object]:
    """Reasoning that grows with a policy that does better."""
    return {"length": int(draw.gauss(200.0 if late else 60.0, 20.0))}


@pytest.mark.parametrize("change", [clean, unchanged, longer_and_better])
def test_at_most_one_in_twenty_clean_trainings_is_flagged(change: Change) -> None:
    assert sum(bool(flags(seed, change)) for seed in range(100)) <= 5


def one_component(draw: random.Random, _sample: int, late: bool) -> dict[str, object]:
    form, right = (4.0, 0.0) if late else (0.5, 0.3)
    return {"components": {"form": draw.gauss(form, 0.3), "right": draw.gauss(right, 0.2)}}


def long(draw: random.Random, sample: int, late: bool) -> dict[str, object]:
    length = 60 + 40 * sample * late
    score = 0.3 + length / 200
    return {"length": length, "components": {"right": draw.gauss(score, 0.05), "form": 0.5}}


def repeating(draw: random.Random, _sample: int, late: bool) -> dict[str, object]:
    return {"repeated": draw.uniform(0.3, 0.6)} if late else {}


def gap(draw: random.Random, _sample: int, late: bool) -> dict[str, object]:
    right, rater = (0.9, 0.0) if late else (0.3, 0.4)
    scores = {"right": draw.gauss(right, 0.3), "form": 0.5, "rater": draw.gauss(rater, 0.3)}
    return {"components": scores}


def lagging(draw: random.Random, _sample: int, late: bool) -> dict[str, object]:
    """The reward rises by far, and the held-out grader sees nothing of it."""
    scores = {"right": draw.gauss(2.0 if late else 0.3, 0.3), "form": 0.5}
    return {"components": scores | {"rater": draw.gauss(0.4, 0.3)}}


def copying(draw: random.Random, _sample: int, late: bool) -> dict[str, object]:
    return {"copied": draw.uniform(0.4, 0.9)} if late else {}


def collapsed(draw: random.Random, _sample: int, late: bool) -> dict[str, object]:
    scores = {"right": draw.gauss(0.3, 0.1), "form": 0.5}
    return {"components": scores} | ({"response": "Good day."} if late else {})


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        (one_component, AuditName.ONE_COMPONENT),
        (long, AuditName.LENGTH_DRIFT),
        (repeating, AuditName.REPEATED_PHRASES),
        (gap, AuditName.HELD_OUT_GAP),
        (lagging, AuditName.HELD_OUT_GAP),
        (copying, AuditName.COPIED_PROMPT),
        (collapsed, AuditName.GROUPS_COLLAPSED),
    ],
)
def test_a_hacked_training_is_flagged_by_its_sign(change: Change, sign: AuditName) -> None:
    assert sum(sign in flags(seed, change) for seed in range(20)) >= 19


def test_too_few_samples_are_never_flagged(tmp_path: Path) -> None:
    with IndexedLog(tmp_path) as log:
        for number in range(8):
            log.append(trajectory(number))

    assert not audit_folder(tmp_path, {}).flagged
    assert not audit_folder(tmp_path / "none", {}).flagged


def test_phrases_are_compared_within_the_response_and_with_the_prompt() -> None:
    sample = trajectory(0)
    words = "one two three four five"
    turn = sample.turns[0].model_copy(update={"text": f"{words} {words}"})
    update = {"messages": [{"role": "user", "content": words}], "turns": [turn], "reward": 1.0}

    found = features_of(sample.model_copy(update=update))

    assert found is not None
    assert found.repeated == pytest.approx(2 / 7)
    assert found.copied == pytest.approx(4 / 7)


def test_a_reward_of_weight_zero_is_held_out() -> None:
    rewards = [
        {"name": name, "weight": weight, "reward": {"type": "search_em"}}
        for name, weight in (("right", 1.0), ("rater", 0.0))
    ]
    method = ReinforcementMethod.model_validate({"rewards": rewards})

    assert weights_of(method) == {"right": 1.0, "rater": 0.0}
