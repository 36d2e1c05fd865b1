"""Builds LLaMA-Factory's arguments from a training spec."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from services.contracts.llamafactory.arguments import ArgumentRefused
from services.contracts.llamafactory.best_checkpoint import (
    EVALUATED_SHARE,
    METRIC,
    higher_is_better,
    times_of_checkpoints,
)
from services.contracts.llamafactory.closed import ArgumentProblem
from services.contracts.llamafactory.names import Stage
from services.contracts.training.fine_tuning import TRAINING_DATASET
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.placement import Sharding
from services.models.adapter_settings import ADAPTER_ARGUMENTS, read_adapter_settings
from services.models.capacity.training import fitting_rows, has_whole_logits
from services.trainer.offline.rows.examples import RENDERED
from services.trainer.offline.spec import VALIDATION_DATASET, TrainingSpec

_ROWS_PER_PREPROCESSING_WORKER = 10_000
_NEEDS_GPU = ("bf16", "fp16", "tf32", "pure_bf16", "bf16_full_eval", "fp16_full_eval")
_PATHS = frozenset({"dataset_dir", "output_dir", "resume_from_checkpoint", "adapter_name_or_path"})

_OF_BITSANDBYTES = ("8bit", "bnb", "paged", "ademamix", "lion")
"""Parts of the names of optimizers."""


@dataclass(frozen=True)
class TrainingEnvironment:
    """The hardware, the base model and the prepared data of a training."""

    model: Path
    output_dir: Path
    data_dir: Path
    template: str
    rows: int
    has_validation: bool
    rows_are_chosen: bool = False
    """Whether ``val_size`` and ``max_samples`` have been applied to the data."""
    reference: Path | None = None
    resizes: bool = False
    """Whether the adapter that is trained further has more tokens than the base."""
    resume_from: Path | None = None
    vocabulary: int | None = None
    """The logits of one token; None where the model's configuration is not understood."""
    devices: int = 1
    cpu_cores: int = 1
    has_gpu: bool = False
    has_bf16: bool = False


def build_arguments(spec: TrainingSpec, place: TrainingEnvironment) -> dict[str, Any]:
    """The complete arguments for the spec's stage of LLaMA-Factory.

    Precedence: arguments that the platform owns, then the client's ``arguments``, then the spec's
    fields and our defaults. Raises ArgumentRefused for batch sizes that do not divide evenly, and
    for what needs a GPU to be the same training.
    """
    _check_device(spec, place)
    return {
        **_defaults(spec, place),
        **spec.stage_arguments,
        **_batch(spec, place),
        **_allowed(spec.arguments, place),
        **_platform_owned(spec, place),
    }


def _check_device(spec: TrainingSpec, place: TrainingEnvironment) -> None:
    """Without a GPU there is no bitsandbytes, and without it other weights would be trained."""
    optimizer = str(spec.arguments.get("optim") or "")
    needs = {
        "quantization_bit": bool(spec.arguments.get("quantization_bit")),
        "optim": any(part in optimizer for part in _OF_BITSANDBYTES),
    }
    for key, needed in needs.items():
        if needed and not place.has_gpu:
            raise ArgumentRefused(
                key,
                ArgumentProblem.BAD_CHOICE,
                f"{key} {spec.arguments[key]} needs a GPU: it is computed by bitsandbytes",
            )


def stated_arguments(spec: TrainingSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the result states, without paths of this host.

    Of an adapter that was trained further they are its own: the library ignores others.
    """
    adapter = None if spec.adapter is None else read_adapter_settings(spec.adapter)
    ignored = _PATHS if adapter is None else _PATHS | ADAPTER_ARGUMENTS
    stated = {name: value for name, value in arguments.items() if name not in ignored}
    return stated if adapter is None else {**stated, **adapter.arguments}


def left_out_without_gpu(arguments: dict[str, JsonValue], place: TrainingEnvironment) -> list[str]:
    """Client arguments that only apply to a GPU and are dropped without one."""
    if place.has_gpu:
        return []
    return [name for name in _NEEDS_GPU if arguments.get(name)]


def is_sharded(sharding: Sharding, place: TrainingEnvironment) -> bool:
    """Whether sharding applies here: accelerate has FSDP for GPUs only."""
    return sharding.is_zero or place.has_gpu


def _allowed(arguments: dict[str, JsonValue], place: TrainingEnvironment) -> dict[str, JsonValue]:
    dropped = left_out_without_gpu(arguments, place)
    if place.template == RENDERED:
        dropped.append("default_system")  # the rows have it
    # The trainer's callbacks of ours do these; every PiSSA adapter is converted.
    dropped += ["early_stopping_steps", "pissa_convert", *GENERATING]
    if place.rows_are_chosen:
        dropped += CHOOSING
    kept = {name: value for name, value in arguments.items() if name not in dropped}
    if (share := kept.pop("warmup_ratio", None)) is not None:
        kept["warmup_steps"] = share  # below 1: a share of all steps
    return kept


GENERATING = (
    *("do_sample", "length_penalty", "num_beams", "repetition_penalty"),
    *("temperature", "top_k", "top_p"),
)
"""Arguments about generation during evaluation."""

CHOOSING = ("max_samples", "val_size")
"""Arguments that are applied to rows when they are prepared: the library counts its own, of which a
conversation may have several and a mixture repeats some."""


def _best_checkpoint(spec: TrainingSpec) -> dict[str, Any]:
    """Selects the best checkpoint by a metric and its direction, if requested."""
    given = spec.arguments
    if not given.get("load_best_model_at_end") and not given.get("early_stopping_steps"):
        return {}
    metric = str(given.get(METRIC) or "loss")
    return {METRIC: metric, "greater_is_better": higher_is_better(metric)}


def _defaults(spec: TrainingSpec, place: TrainingEnvironment) -> dict[str, Any]:
    chosen = {
        "num_train_epochs": spec.n_epochs,
        "learning_rate": spec.learning_rate,
        "cutoff_len": spec.max_seq_len,
        "warmup_steps": spec.warmup_ratio,  # below 1: a share of all steps
        "lr_scheduler_type": "cosine",
        "logging_steps": 0.01,  # below 1: a share of all steps
        "logging_first_step": True,
        "save_steps": EVALUATED_SHARE,
        # On a CPU memory is plentiful, and recomputing costs a third of the time.
        "disable_gradient_checkpointing": not place.has_gpu,
        "dataloader_pin_memory": place.has_gpu,
    }
    if place.has_bf16 and not any(spec.arguments.get(name) for name in ("fp16", "pure_bf16")):
        chosen["bf16"] = True
    is_split = not place.rows_are_chosen and spec.arguments.get("val_size")
    if place.has_validation or is_split:
        chosen |= {"eval_strategy": "steps", "eval_steps": EVALUATED_SHARE}
        chosen |= {**_best_checkpoint(spec), **times_of_checkpoints(spec.arguments)}
        # valid_mean_token_accuracy of the result file
        chosen["compute_accuracy"] = spec.stage is Stage.SFT
    workers = min(place.cpu_cores, place.rows // _ROWS_PER_PREPROCESSING_WORKER)
    if workers > 1:
        chosen["preprocessing_num_workers"] = workers
    if spec.method is TrainingType.LORA:
        chosen |= {
            "lora_rank": spec.lora.rank,
            "lora_alpha": spec.lora.alpha or 2 * spec.lora.rank,
            "lora_dropout": spec.lora.dropout,
            "lora_target": ",".join(spec.lora.targets or ["all"]),
        }
    return chosen


def _batch(spec: TrainingSpec, place: TrainingEnvironment) -> dict[str, int]:
    """Rows per device and accumulation steps whose product is the requested batch size."""
    per_device = _positive(spec, "per_device_train_batch_size")
    accumulation = _positive(spec, "gradient_accumulation_steps")
    if spec.batch_size is None or (per_device and accumulation):
        per_device = per_device or min(8, _fitting_rows(spec, place))
        accumulation = accumulation or 1
    else:
        share = _divide(spec.batch_size, place.devices, "devices")
        if per_device:
            accumulation = _divide(share, per_device, "per_device_train_batch_size")
        elif accumulation:
            per_device = _divide(share, accumulation, "gradient_accumulation_steps")
        else:
            fitting = _fitting_rows(spec, place)
            per_device = max(n for n in range(1, share + 1) if share % n == 0 and n <= fitting)
            accumulation = share // per_device
    return {
        "per_device_train_batch_size": per_device,
        "gradient_accumulation_steps": accumulation,
        "per_device_eval_batch_size": per_device,
    }


def _positive(spec: TrainingSpec, name: str) -> int:
    value = spec.arguments.get(name) or 0
    return value if isinstance(value, int) and value > 0 else 0


def _fitting_rows(spec: TrainingSpec, place: TrainingEnvironment) -> int:
    longest = spec.arguments.get("cutoff_len")
    length = longest if isinstance(longest, int) else spec.max_seq_len
    vocabulary = place.vocabulary if has_whole_logits(spec.arguments) else None
    return fitting_rows(length, spec.stage, vocabulary)


def _divide(rows: int, parts: int, name: str) -> int:
    if rows % parts:
        raise ArgumentRefused(
            name,
            ArgumentProblem.BAD_CHOICE,
            f"a batch of {rows} rows cannot be divided by {name} {parts}",
        )
    return rows // parts


def _platform_owned(spec: TrainingSpec, place: TrainingEnvironment) -> dict[str, Any]:
    owned: dict[str, Any] = {
        "stage": spec.stage.value,
        "do_train": True,
        "finetuning_type": spec.method.value,
        "model_name_or_path": str(place.model),
        "trust_remote_code": spec.runs_model_code,
        "dataset_dir": str(place.data_dir),
        "dataset": TRAINING_DATASET,
        "template": place.template,
        "output_dir": str(place.output_dir),
        **({"resize_vocab": True} if place.resizes else {}),
        "overwrite_output_dir": True,  # otherwise LLaMA-Factory decides whether to resume
        "resume_from_checkpoint": str(place.resume_from) if place.resume_from else None,
        "save_only_model": False,
        "seed": spec.seed,
        "report_to": "none",
        "plot_loss": False,
        "disable_tqdm": True,
        "include_num_input_tokens_seen": "non_padding",
        "logging_nan_inf_filter": False,  # a diverged loss must be visible
        "push_to_hub": False,
        "use_cpu": not place.has_gpu,
    }
    if spec.sharding is not None and is_sharded(spec.sharding, place):
        owned |= sharding_arguments(spec.sharding)
    if spec.adapter is not None:
        owned["adapter_name_or_path"] = str(spec.adapter)
    if place.reference is not None:
        owned["ref_model"] = str(place.reference)
    if spec.reference is not None and spec.reference.adapter is not None:
        owned["ref_model_adapters"] = str(spec.reference.adapter)
    if place.has_validation:
        owned["eval_dataset"] = ",".join(spec.validations) or VALIDATION_DATASET
        owned["eval_on_each_dataset"] = bool(spec.validation_sets)
    return owned


def sharding_arguments(sharding: Sharding) -> dict[str, Any]:
    """Arguments of DeepSpeed or FSDP; precision, batch and clipping are the trainer's ("auto")."""
    if sharding.is_zero:
        return {"deepspeed": _zero(sharding)}
    return {
        "fsdp": f"full_shard auto_wrap{' offload' if sharding.offloads else ''}",
        "fsdp_config": {"version": 2, "state_dict_type": "FULL_STATE_DICT"},
    }


def _zero(sharding: Sharding) -> dict[str, Any]:
    """As in LLaMA-Factory's examples/deepspeed, with collectives that gloo supports too."""
    zero: dict[str, Any] = {
        "stage": 3 if sharding.splits_weights else 2,
        "overlap_comm": False,
        "contiguous_gradients": True,
    }
    if sharding.splits_weights:
        zero |= {
            "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    if sharding.offloads:
        place = {"device": "cpu", "pin_memory": False}
        zero["offload_optimizer"] = place
        if sharding.splits_weights:
            zero["offload_param"] = place
    return {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": zero,
    }
