"""Read LLaMA-Factory's YAML training files as fine-tuning settings."""

from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.argument_values import SPEED_ONLY, missing_package
from services.contracts.llamafactory.arguments import catalogue, check_arguments, check_template
from services.contracts.llamafactory.closed import ArgumentProblem, refusal
from services.contracts.llamafactory.idle import idle
from services.contracts.llamafactory.names import Stage
from services.contracts.training.offline import (
    OfflineHyperparameters,
    PretrainingHyperparameters,
    RewardModelHyperparameters,
    SupervisedHyperparameters,
)
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.placement import Sharding
from services.contracts.training.preference_optimization import (
    DpoHyperparameters,
    KtoHyperparameters,
)
from services.contracts.validation import first_fault
from services.mixing.order import Mixing
from services.parsing.yaml_text import parse_yaml

MAX_YAML_CHARACTERS = 256 * 1024
MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class LlamaFactoryJob:
    """The contents of a training file.

    ``datasets`` and ``eval_datasets`` are names in the ``dataset_info.json`` of ``dataset_dir``.
    ``evaluates_each``: each evaluation dataset gets its own metrics.
    ``notes`` say which arguments were dropped, and why.
    """

    model: str
    datasets: tuple[str, ...]
    eval_datasets: tuple[str, ...]
    evaluates_each: bool
    dataset_dir: str | None
    hyperparameters: OfflineHyperparameters
    mixing: Mixing
    seed: int
    notes: tuple[str, ...]


def parse_llamafactory_yaml(text: str) -> LlamaFactoryJob:
    """Parse a YAML file for LLaMA-Factory's stages sft, dpo, kto, rm and pt.

    Missing arguments have LLaMA-Factory's defaults. Arguments that the platform controls, that
    the stage ignores, or that only make it faster with a package that is not there are dropped
    with a note. Raises InvalidRequest for anything but a YAML mapping, for another stage or method,
    for a file that does not train, for an argument or template that is unknown or has an invalid
    value, and for one without which something else would be trained.
    """
    settings = _load(text)
    _require(settings, "stage", tuple(Stage))
    _require_training(settings)
    _require(settings, "finetuning_type", tuple(TrainingType))
    stage = Stage(settings.get("stage") or _default("stage"))
    names = {key: settings.pop(key, None) for key in ("dataset", "eval_dataset")}
    model = settings.pop("model_name_or_path", None)
    for field, value in (("model_name_or_path", model), ("dataset", names["dataset"])):
        if not value or not isinstance(value, str):
            raise InvalidRequest(f"the file has no {field}", param=field)
    dataset_dir = settings.pop("dataset_dir", None)
    seed = _seed(settings.pop("seed", None))
    mixing = Mixing.parse(
        settings.pop("mix_strategy", None), settings.pop("interleave_probs", None), seed
    )
    evaluates_each = settings.pop("eval_on_each_dataset", None) is True
    template = settings.pop("template", None)
    method = TrainingType(settings.pop("finetuning_type", None) or _default("finetuning_type"))
    reference = _named_reference(settings)
    generation = _generation(settings, stage)
    sharding = _sharding(settings)
    notes = _drop_closed(settings) + _drop_accelerations(settings)
    if stage is Stage.PT and template is not None:
        template = None
        notes.append("template is ignored: pre-training reads raw text")
    beside = {
        "finetuning_type": method.value,
        "template": template,
        "eval_dataset": names["eval_dataset"],
        "predict_with_generate": bool(generation),
    }
    variables = _template_variables(settings, stage, template)
    notes += _drop_idle(settings, stage, beside)
    return LlamaFactoryJob(
        model=str(model),
        datasets=_split(names["dataset"]),
        eval_datasets=_split(names["eval_dataset"]),
        evaluates_each=evaluates_each,
        dataset_dir=dataset_dir if isinstance(dataset_dir, str) else None,
        hyperparameters=_hyperparameters(
            settings,
            stage,
            method,
            {
                "template": template,
                "chat_template_kwargs": variables,
                **reference,
                **generation,
                **sharding,
            },
            beside,
        ),
        mixing=mixing,
        seed=seed,
        notes=tuple(notes),
    )


def _load(text: str) -> dict[str, Any]:
    if len(text) > MAX_YAML_CHARACTERS:
        raise InvalidRequest(f"the file is longer than {MAX_YAML_CHARACTERS:,} characters")
    try:
        settings = parse_yaml(text)
    except yaml.YAMLError as error:
        raise InvalidRequest(f"the file is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise InvalidRequest("the file is not a mapping of argument names to values")
    return settings


def _require(settings: dict[str, Any], key: str, supported: tuple[str, ...]) -> None:
    value = settings.get(key) or _default(key)
    if value not in supported:
        choices = " or ".join(supported)
        raise InvalidRequest(f"{key} {value} is not supported, only {choices}", param=key)


def _require_training(settings: dict[str, Any]) -> None:
    """Reject files for prediction or evaluation, which differ in do_train only."""
    if settings.get("do_train") is not True:
        raise InvalidRequest(
            "only training files are supported: do_train is not true",
            param="do_train",
        )


def _seed(given: Any) -> int:
    value = _default("seed") if given is None else given
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SEED:
        raise InvalidRequest(
            f"seed must be a whole number from 0 to {MAX_SEED}, not {str(value)[:100]!r}",
            param="seed",
        )
    return value


def _default(key: str) -> Any:
    return catalogue().arguments[key].default


def _split(names: Any) -> tuple[str, ...]:
    return tuple(name.strip() for name in str(names or "").split(",") if name.strip())


def _drop_closed(settings: dict[str, Any]) -> list[str]:
    """Remove arguments that clients may not set; return notes on those that would matter.

    Raises InvalidRequest for those without which something else would be trained.
    """
    notes = []
    for key in list(settings):
        closed = refusal(key) if key in catalogue().arguments else None
        if closed is None:
            continue
        problem, reason = closed
        value = settings.pop(key)
        if value in (None, False, "none") or key in _ALREADY_TRUE:
            continue
        unsafe = problem is ArgumentProblem.UNSAFE and key not in _NOT_NEEDED
        if unsafe or key in _DECISIVE:
            raise InvalidRequest(f"{key} cannot be used: {reason}", param=key)
        notes.append(f"{key} is ignored: {reason}")
    return notes


def _drop_accelerations(settings: dict[str, Any]) -> list[str]:
    """Remove arguments that only compute the same faster, with a package that is not there."""
    notes = []
    for key in SPEED_ONLY & settings.keys():
        if (package := missing_package(key, settings[key])) is not None:
            del settings[key]
            notes.append(f"{key} is ignored: the training runtime has no {package}")
    return sorted(notes)


_DECISIVE = {"adapter_name_or_path", "create_new_adapter", "model_revision", "tokenized_path"}
"""The platform's own arguments that change the model or the data."""
_NOT_NEEDED = {"trust_remote_code"}
"""A model whose code is needed says so when it is loaded."""
_ALREADY_TRUE = {"do_train", "overwrite_cache", "overwrite_output_dir", "stage"}


def _named_reference(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the field for the registered model that ``ref_model`` names."""
    reference = settings.pop("ref_model", None)
    if reference is None:
        return {}
    if settings.get("ref_model_adapters"):
        message = "ref_model_adapters cannot be used: register the adapter and name it as ref_model"
        raise InvalidRequest(message, param="ref_model_adapters")
    return {"reference_model": reference}


def _generation(settings: dict[str, Any], stage: Stage) -> dict[str, Any]:
    """Return the field for answers to generate during evaluations."""
    if stage is not Stage.SFT or settings.get("predict_with_generate") is not True:
        return {}
    del settings["predict_with_generate"]
    most = settings.pop("max_new_tokens", None)
    return {"generation": {"max_tokens": _default("max_new_tokens") if most is None else most}}


def _sharding(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the field for one of LLaMA-Factory's own DeepSpeed files, recognized by name."""
    name = str(settings.get("deepspeed")).rpartition("/")[2]
    if name not in _DEEPSPEED_FILES:
        return {}
    del settings["deepspeed"]
    return {"sharding": _DEEPSPEED_FILES[name]}


_DEEPSPEED_FILES = {
    "ds_z2_config.json": Sharding.ZERO_2,
    "ds_z2_offload_config.json": Sharding.ZERO_2_OFFLOAD,
    "ds_z3_config.json": Sharding.ZERO_3,
    "ds_z3_offload_config.json": Sharding.ZERO_3_OFFLOAD,
}
_VARIABLES = ("enable_thinking", "preserve_thinking")


def _template_variables(
    settings: dict[str, Any], stage: Stage, template: str | None
) -> dict[str, Any]:
    """Remove and return the variables for the model's own template; a named one takes none."""
    if template is not None or stage is Stage.PT:
        return {}
    given = {name: settings.pop(name) for name in _VARIABLES if name in settings}
    return {name: value for name, value in given.items() if value is not None}


def _drop_idle(settings: dict[str, Any], stage: Stage, beside: dict[str, Any]) -> list[str]:
    """Remove arguments that have no effect; return notes on those that were given a value."""
    together = {**beside, **settings}
    reasons = {key: idle(key, stage, together) for key in settings}
    for key, reason in reasons.items():
        if reason is not None:
            del settings[key]
    return [f"{key} is ignored: {reason}" for key, reason in reasons.items() if reason is not None]


_CLASSES: dict[Stage, type[OfflineHyperparameters]] = {
    Stage.SFT: SupervisedHyperparameters,
    Stage.DPO: DpoHyperparameters,
    Stage.KTO: KtoHyperparameters,
    Stage.RM: RewardModelHyperparameters,
    Stage.PT: PretrainingHyperparameters,
}


def _hyperparameters(
    settings: dict[str, Any],
    stage: Stage,
    method: TrainingType,
    more: dict[str, Any],
    beside: dict[str, Any],
) -> OfflineHyperparameters:
    for key in ("per_device_train_batch_size", "lr_scheduler_type"):
        settings.setdefault(key, _default(key))
    check_arguments(settings, stage, beside=beside)
    lora = {field: settings.pop(key, _default(key)) for field, key in _LORA_FIELDS.items()}
    targets = lora["target_modules"]
    lora["target_modules"] = None if targets == "all" else _split(targets)
    fields = {field: settings.pop(key, _default(key)) for field, key in _FIELDS.items()}
    if fields["warmup_ratio"] is None:
        del fields["warmup_ratio"]
    elif fields["warmup_ratio"] and settings.get("warmup_steps") == 0:
        del settings["warmup_steps"]  # no steps leave it to the share, as transformers reads them
    own = {key: field for key, field in _STAGE_FIELDS.get(stage, {}).items() if key in settings}
    fields |= {field: settings.pop(key) for key, field in own.items()}
    try:
        hyperparameters = _CLASSES[stage].model_validate(
            {
                **fields,
                "training_type": method,
                **more,
                "lora": lora if method is TrainingType.LORA else {},
                "llamafactory": settings,
            }
        )
    except ValidationError as error:
        fault = first_fault(error)
        field = str(fault.location[0]) if fault.location else "stage"
        raise InvalidRequest(f"{field}: {fault.message}", param=field) from None
    hyperparameters.check_warmup()
    if hyperparameters.template is not None:
        check_template(hyperparameters.template)
    return hyperparameters


_FIELDS = {
    "n_epochs": "num_train_epochs",
    "learning_rate": "learning_rate",
    "max_seq_length": "cutoff_len",
    "warmup_ratio": "warmup_ratio",
}
_LORA_FIELDS = {
    "rank": "lora_rank",
    "alpha": "lora_alpha",
    "dropout": "lora_dropout",
    "target_modules": "lora_target",
}
_STAGE_FIELDS: dict[Stage, dict[str, str]] = {
    Stage.DPO: {
        "pref_beta": "beta",
        "pref_ftx": "sft_weight",
        "pref_loss": "loss",
        "dpo_label_smoothing": "label_smoothing",
        "simpo_gamma": "simpo_gamma",
    },
    Stage.KTO: {
        "pref_beta": "beta",
        "pref_ftx": "sft_weight",
        "kto_chosen_weight": "desirable_weight",
        "kto_rejected_weight": "undesirable_weight",
    },
}
