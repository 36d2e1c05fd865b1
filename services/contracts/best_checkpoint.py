"""What an evaluation during training reports, and which of it is better when higher."""

from collections.abc import Collection, Mapping
from typing import Any

from services.contracts.llamafactory import ArgumentProblem, ArgumentRefused
from services.contracts.stages import Stage

METRIC = "metric_for_best_model"
GENERATED = ("rouge-1", "rouge-2", "rouge-l", "bleu-4", "exact_match")
SCORE = "score"
"""The mean of a grader over generated answers."""

WITHOUT_LOGITS = ("enable_liger_kernel", "use_liger_kernel")
"""Arguments with which an evaluation has no logits, and hence no accuracy."""

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
    """The direction of a metric that the client did not give one for."""
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
    has_logits = not any(arguments.get(name) for name in WITHOUT_LOGITS)
    if not has_logits or arguments.get("compute_accuracy") is False:
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
