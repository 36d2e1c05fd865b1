"""Published recipes on a published model: learning curves over several seeds, at equal budgets.

    python -m benchmarks.rl.recipes [--recipes grpo dapo gspo cispo] [--seeds 1 2 3] [--steps 10]

The task of ``temper demo real``. Each seed has its own problems and its own fine-tune, from which
every recipe goes on; trained samples, updates and optimizer steps are the same for all, so that
losses, clipping and filters are compared. A recipe draws as many prompts as its dynamic sampling
drops. Prints, for each recipe, the share of right calls before and after with 95 % intervals over
problems and seeds, the prompts that were drawn, and by step the mean reward of all rollouts, those
of dropped groups included, with its interval over seeds; ``--out`` writes all of it as JSON. A
recipe of one seed takes about 20 minutes on two cores. Results of earlier runs are reused.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from examples.demo_6_real.data import write_data
from examples.demo_6_real.model import fetch_model
from examples.demo_6_real.steps import (
    DRAWN_PER_STEP,
    LORA,
    MAX_TOKENS,
    PROMPTS_PER_STEP,
    REINFORCEMENT_STEPS,
    SAMPLES,
    evaluation,
    supervised,
)
from examples.demo_common.printer import Printer
from examples.demo_common.report import EVENTS
from examples.demo_common.setup import home_folder, local_stack
from examples.demo_common.steps import Demo
from services.contracts.training.recipes import Recipe
from services.metrics.paired import student_test
from temper.types import (
    CreateFineTuningJob,
    CreateMerge,
    Evaluation,
    Event,
    FilePurpose,
    FunctionCallsGrader,
    Method,
    ReinforcementHyperparameters,
    ReinforcementMethod,
    WeightedReward,
)

RECIPES = (Recipe.GRPO, Recipe.DAPO, Recipe.GSPO, Recipe.CISPO)
REWARD = "rollout_reward"
"""Of all rollouts. The mean of the trained ones cannot tell learning: dynamic sampling keeps groups
that are neither all right nor all wrong, whatever the policy has learned."""
MINI_BATCHES = 2
"""Optimizer steps of an update: ratios and their clipping do nothing in a single one."""


@dataclass(frozen=True)
class Curve:
    """A recipe's training from one seed: right calls before and after, each with its interval, the
    mean reward of all rollouts of each step, and the prompts drawn until its end."""

    recipe: str
    seed: int
    before: float
    before_ci95: tuple[float, float]
    after: float
    after_ci95: tuple[float, float]
    rewards: dict[int, float]
    drawn: int


def main() -> None:
    """Train every recipe from every seed and print the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--recipes", type=Recipe, nargs="+", default=RECIPES, help="their names")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=REINFORCEMENT_STEPS)
    parser.add_argument("--out", type=Path, help="JSON file of all curves")
    options = parser.parse_args()
    home, out = home_folder(), Printer()
    model = fetch_model(home, out)
    with local_stack(home, out) as client:
        demo = Demo(client, out, home)
        base = demo.convert(CreateMerge(model=demo.register(model), suffix="full"))
        curves = [
            curve
            for seed in options.seeds
            for curve in _curves(demo, base, seed, options.steps, options.recipes)
        ]
    for recipe in options.recipes:
        for line in summary([each for each in curves if each.recipe == recipe]):
            print(line)
    if options.out is not None:
        options.out.write_text(json.dumps([asdict(each) for each in curves], indent=1))


def _curves(
    demo: Demo, base: str, seed: int, steps: int, recipes: Sequence[Recipe]
) -> Sequence[Curve]:
    data = write_data(demo.home / "demo" / f"real-{seed}", DRAWN_PER_STEP * steps, seed)
    training = demo.upload(data.training, FilePurpose.FINE_TUNE)
    prompts = demo.upload(data.prompts, FilePurpose.FINE_TUNE)
    held_out = demo.upload(data.held_out, FilePurpose.EVALS)
    tuned = demo.train(supervised(base, training, seed), training).fine_tuned_model or ""
    before = demo.evaluated(demo.submit(evaluation(tuned, held_out), held_out))
    curves = []
    for recipe in recipes:
        job = demo.train(request(tuned, prompts.id, recipe, steps, seed), prompts)
        last = evaluation(job.fine_tuned_model or "", held_out)
        after = demo.evaluated(demo.submit(last, held_out))
        curves.append(_curve(demo, recipe, seed, before, after, job.id))
    return curves


def request(model: str, prompts: str, recipe: Recipe, steps: int, seed: int) -> CreateFineTuningJob:
    """A recipe on the demonstration's budget; what is not given here is the recipe's."""
    hyperparameters = ReinforcementHyperparameters.model_validate(
        {
            "recipe": recipe,
            "steps": steps,
            "prompts_per_step": PROMPTS_PER_STEP,
            "samples_per_prompt": SAMPLES,
            "mini_batches": MINI_BATCHES,
            "optimizer": {
                "training_type": "lora",
                "lora": LORA.model_dump(),
                "learning_rate": 1e-4,
                "weight_decay": 0.0,
                "warmup_steps": 0,
                "micro_batch_tokens": 2048,
            },
            "sampling": {"max_tokens": MAX_TOKENS},
            "dynamic_sampling": {"max_batches": 4},
            "overlong": None,
            "checkpoint_steps": steps,
        }
    )
    reward = WeightedReward(name="call", reward=FunctionCallsGrader())
    method = ReinforcementMethod(rewards=[reward], hyperparameters=hyperparameters)
    return CreateFineTuningJob(
        model=model,
        training_file=prompts,
        suffix=recipe.value,
        seed=seed,
        method=Method.model_validate({"type": "reinforcement", "reinforcement": method}),
    )


def _curve(
    demo: Demo, recipe: Recipe, seed: int, before: Evaluation, after: Evaluation, job: str
) -> Curve:
    assert before.metrics is not None
    assert after.metrics is not None
    rewards, drawn = course(demo.client.jobs.events(job, most=EVENTS).data)
    return Curve(
        recipe.value,
        seed,
        before.metrics.accuracy,
        before.metrics.ci95,
        after.metrics.accuracy,
        after.metrics.ci95,
        rewards,
        drawn,
    )


def course(events: Sequence[Event]) -> tuple[dict[int, float], int]:
    """The mean reward of all rollouts of each step, and the prompts drawn until the last one."""
    steps = {
        int(event.data["step"]): event.data
        for event in events
        if event.type == "metrics" and event.data and REWARD in event.data
    }
    rewards = {step: float(metrics[REWARD]) for step, metrics in steps.items()}
    return rewards, int(steps[max(steps)]["prompts_drawn"])


def summary(curves: Sequence[Curve]) -> Sequence[str]:
    """Lines about one recipe: its seeds, the mean gain, and the mean reward by step."""
    lines = [
        f"{each.recipe}, seed {each.seed}: {_share(each.before, each.before_ci95)} -> "
        f"{_share(each.after, each.after_ci95)}, {each.drawn:,} prompts drawn"
        for each in curves
    ]
    gains = [each.after - each.before for each in curves]
    lines.append(f"{curves[0].recipe}: mean gain {_with_interval(gains)}")
    for step in sorted(set.intersection(*(set(each.rewards) for each in curves))):
        lines.append(f"  {step:>4} {_with_interval([each.rewards[step] for each in curves])}")
    return lines


def _share(value: float, ci95: tuple[float, float]) -> str:
    return f"{value:.1%} ({ci95[0]:.1%} to {ci95[1]:.1%})"


def _with_interval(values: Sequence[float]) -> str:
    """The mean over seeds, with Student's 95 % interval where there are several."""
    if len(values) < 2:
        return f"{values[0]:+.3f}"
    _, (low, high) = student_test(np.array(values))
    return f"{fmean(values):+.3f} ({low:+.3f} to {high:+.3f})"


if __name__ == "__main__":
    main()
