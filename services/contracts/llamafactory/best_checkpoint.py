"""The metrics of an evaluation during training, and their direction."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import JsonValue

from services.contracts.llamafactory.arguments import ArgumentRefused
from services.contracts.llamafactory.closed import ArgumentProblem
from services.contracts.llamafactory.names import Stage

METRIC = "metric_for_best_model"
GENERATED = ("rouge-1", "rouge-2", "rouge-l", "bleu-4", "exact_match")
EVALUATED_SHARE = 0.2
"""Default interval of evaluations and checkpoints, as a share of all steps."""

_MILLION = 1_000_000

SCORE = "score"
"""The mean score of a grader over generated answers."""

_BY_METRIC = ("load_best_model_at_end", "early_stopping_steps")
_PAIRS = tuple(f"rewards/{name}" for name in ("accuracies", "chosen", "margins", "rejected"))
_REPORTED: dict[Stage, tuple[str, ...]] = {
    Stage.SFT: ("loss", "accuracy"),
    Stage.DPO: ("loss", *_PAIRS),
    Stage.KTO: ("loss", "kl", "rewards/chosen", "rewards/margins", "rewards/rejected"),
    Stage.RM: ("loss", *_PAIRS),
    Stage.PT: ("loss",),
}


def higher_is_better(metric: str) -> bool:
    """The default direction of a metric."""
    return not metric.endswith(("loss", "kl", "rewards/rejected"))


def check_metric(
    arguments: Mapping[str, Any],
    stage: Stage,
    generated: tuple[str, ...],
    names: Collection[str] = (),
) -> None:
    """Raise ArgumentRefused for a best checkpoint by a metric that no evaluation of the stage
    reports; ``generated`` are the metrics of generated answers, ``names`` those of validation files
    with metrics of their own."""
    if not any(arguments.get(name) for name in (METRIC, *_BY_METRIC)):
        return
    reported = (*_REPORTED[stage], *generated)
    if arguments.get("compute_accuracy") is False:
        reported = tuple(metric for metric in reported if metric != "accuracy")
    if names:
        reported = tuple(f"{name}_{metric}" for name in names for metric in reported)
    wanted = str(arguments.get(METRIC) or "loss").removeprefix("eval_")
    if wanted not in reported:
        raise ArgumentRefused(
            METRIC,
            ArgumentProblem.BAD_CHOICE,
            f"{METRIC} must be one of {', '.join(reported)}, not {wanted[:100]!r}",
        )


def times_of_checkpoints(arguments: Mapping[str, Any]) -> dict[str, JsonValue]:
    """When to evaluate and save so that every checkpoint is evaluated, if the best one is
    requested: the client's setting of one applies to the other. Empty if it is not requested."""
    if not arguments.get("load_best_model_at_end"):
        return {}
    saving = arguments.get("save_strategy")
    if saving == "best":  # saved by its evaluation
        return {}
    strategy = arguments.get("eval_strategy") or saving or "steps"
    steps = arguments.get("eval_steps") or arguments.get("save_steps") or EVALUATED_SHARE
    evaluating = {"eval_strategy": strategy, "eval_steps": steps}
    return {**evaluating, "save_strategy": strategy, "save_steps": steps}


def check_times_of_checkpoints(arguments: Mapping[str, Any]) -> None:
    """Raise ArgumentRefused if checkpoints would be saved without an evaluation."""
    if not (chosen := times_of_checkpoints(arguments)):
        return
    given = {name: value for name, value in arguments.items() if value is not None}
    times = {**chosen, **given}
    beside = "load_best_model_at_end needs an evaluation of every checkpoint"
    if times["eval_strategy"] == "no":
        raise ArgumentRefused("eval_strategy", ArgumentProblem.BAD_CHOICE, f"{beside}: it is no")
    if times["save_strategy"] != times["eval_strategy"]:
        message = f"{beside}: save_strategy must be eval_strategy, {times['eval_strategy']}"
        raise ArgumentRefused("save_strategy", ArgumentProblem.BAD_CHOICE, message)
    saved, evaluated = times["save_steps"], times["eval_steps"]
    if times["eval_strategy"] == "steps" and not _is_multiple(saved, evaluated):
        message = f"{beside}: save_steps {saved} must be a multiple of eval_steps {evaluated}"
        raise ArgumentRefused("save_steps", ArgumentProblem.BAD_CHOICE, message)


def _is_multiple(steps: float, of: float) -> bool:
    """Both are step counts, or both, below 1, shares of all steps."""
    if of <= 0 or (steps < 1) != (of < 1):
        return False
    return round(steps * _MILLION) % round(of * _MILLION) == 0
