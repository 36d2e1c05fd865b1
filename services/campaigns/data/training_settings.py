"""The LLM's train.yaml: LLaMA-Factory's arguments, checked against the installed version."""

from dataclasses import dataclass

import yaml
from pydantic import ValidationError

from services.campaigns.run.signals import StepFailed
from services.contracts.base import JsonObject
from services.contracts.campaigns.loops import Failure
from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.arguments import ArgumentRefused, check_arguments
from services.contracts.llamafactory.closed import ArgumentProblem
from services.contracts.training.offline import SupervisedHyperparameters
from services.contracts.training.optimizer import TrainingType
from services.contracts.validation import first_fault
from services.parsing.yaml_text import parse_yaml

STAGE = "sft"
MAX_CHARACTERS = 64 * 1024
TRIAL_STEPS = 2
TRIAL_ARGUMENTS: JsonObject = {"max_steps": TRIAL_STEPS, "save_strategy": "no"}
"""Arguments that a trial sets in place of the LLM's own."""
_DROPPED = {
    ArgumentProblem.UNKNOWN,
    ArgumentProblem.PLATFORM_OWNED,
    ArgumentProblem.NO_EFFECT,
}


@dataclass(frozen=True)
class TrainingSettings:
    """Checked settings, and a note for every argument that was dropped."""

    hyperparameters: SupervisedHyperparameters
    notes: list[str]


def read_settings(text: str) -> TrainingSettings:
    """Check a YAML of LLaMA-Factory's arguments.

    Arguments that are unknown, without effect or managed by the platform are dropped with a note.
    Raises `StepFailed` for what is not a mapping, an unsafe argument or a bad value.
    """
    repeated: list[str] = []
    arguments = _load(text, repeated)
    method = arguments.pop("finetuning_type", TrainingType.LORA.value)
    template = arguments.pop("template", None)
    notes = [f"{key} is given twice: the last value counts" for key in repeated]
    stage = arguments.pop("stage", STAGE)
    if stage != STAGE:
        notes.append(f"stage {str(stage)[:100]!r}: campaigns train with {STAGE} only")
    for key in list(arguments):
        try:
            check_arguments({key: arguments[key]}, beside={**arguments, "finetuning_type": method})
        except ArgumentRefused as refused:
            if refused.problem not in _DROPPED:
                raise StepFailed(Failure.CONFIG, f"train.yaml: {refused.message}") from None
            del arguments[key]
            notes.append(f"{refused.message}; it was dropped")
    if arguments.get("warmup_ratio") and arguments.get("warmup_steps") == 0:
        del arguments["warmup_steps"]  # no steps leave it to the share, as transformers reads them
    try:
        hyperparameters = SupervisedHyperparameters(
            training_type=method, template=template, llamafactory=arguments
        )
        hyperparameters.check_library_arguments(has_validation=False)
    except ValidationError as error:
        told = first_fault(error).sentence()
        raise StepFailed(Failure.CONFIG, f"train.yaml: {told}") from None
    except InvalidRequest as error:
        raise StepFailed(Failure.CONFIG, f"train.yaml: {error.message}") from None
    return TrainingSettings(hyperparameters, notes)


def trial_arguments(arguments: JsonObject) -> JsonObject:
    """LLaMA-Factory's arguments for a few steps, without evaluations, checkpoints or a validation
    split."""
    kept = {
        name: value
        for name, value in arguments.items()
        if name not in _NOT_IN_TRIALS and not name.startswith(("eval_", "save_", "logging_"))
    }
    return {**kept, **TRIAL_ARGUMENTS}


_NOT_IN_TRIALS = frozenset(
    {
        *("batch_eval_metrics", "bf16_full_eval", "compute_accuracy", "dataloader_drop_last"),
        *("early_stopping_steps", "fp16_full_eval", "greater_is_better", "include_for_metrics"),
        *("load_best_model_at_end", "metric_for_best_model", "per_device_eval_batch_size"),
        *("prediction_loss_only", "val_size"),
    }
)


def _load(text: str, repeated: list[str]) -> JsonObject:
    if len(text) > MAX_CHARACTERS:
        raise StepFailed(Failure.CONFIG, f"train.yaml has more than {MAX_CHARACTERS} characters")
    try:
        settings = parse_yaml(text, repeated)
    except (yaml.YAMLError, RecursionError) as error:
        message = " ".join(str(error).split())
        raise StepFailed(Failure.CONFIG, f"train.yaml is not YAML: {message}") from None
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise StepFailed(Failure.CONFIG, "train.yaml is not a mapping of names to values")
    return settings
