"""LLaMA-Factory's own argument names in a request: which exist, which a client may set.

The known arguments are listed in ``llamafactory_arguments.json`` beside this module, generated
from the installed version by ``services.trainer.offline.catalogue``.
"""

import difflib
import math
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from services.contracts.errors import InvalidRequest
from services.contracts.idle_arguments import idle
from services.contracts.stages import Stage

CATALOGUE_PATH = Path(__file__).with_name("llamafactory_arguments.json")


class ArgumentProblem(StrEnum):
    """Why an argument was refused."""

    UNKNOWN = "unknown"
    PLATFORM_OWNED = "platform_owned"  # the platform sets it itself
    UNSAFE = "unsafe"  # it would run foreign code, or read or write where a client must not
    WRONG_TYPE = "wrong_type"
    BAD_CHOICE = "bad_choice"
    NO_EFFECT = "no_effect"  # the stage does not read it


class ArgumentRefused(InvalidRequest):
    """One argument cannot be accepted. ``nearest`` is the closest known name of an unknown one."""

    code = "invalid_llamafactory_argument"

    def __init__(
        self, key: str, problem: ArgumentProblem, message: str, *, nearest: str | None = None
    ) -> None:
        super().__init__(message, param=f"llamafactory.{key}")
        self.key = key
        self.problem = problem
        self.nearest = nearest


class Argument(BaseModel):
    """One argument of the installed version; ``types`` are JSON Schema's names."""

    model_config = ConfigDict(frozen=True)

    group: str
    types: list[str]
    choices: list[str] | None = None
    default: JsonValue = None


class Catalogue(BaseModel):
    """Every argument that a version of LLaMA-Factory takes for training."""

    model_config = ConfigDict(frozen=True)

    llamafactory: str
    transformers: str
    templates: list[str]
    arguments: dict[str, Argument]


@cache
def catalogue() -> Catalogue:
    """The committed catalogue."""
    return Catalogue.model_validate_json(CATALOGUE_PATH.read_bytes())


def check_arguments(
    arguments: Mapping[str, JsonValue],
    stage: Stage = Stage.SFT,
    known: Catalogue | None = None,
    *,
    beside: Mapping[str, JsonValue] | None = None,
) -> None:
    """Check arguments that a client wants to set.

    Raises ArgumentRefused for the first key that is unknown, belongs to the platform, is unsafe,
    has no effect in ``stage``, or has a value of the wrong type or outside its choices. ``known``
    replaces the committed catalogue, for a check against an installed version; ``beside`` are
    settings made elsewhere, under LLaMA-Factory's names (see `idle`).
    """
    known = known or catalogue()
    together = {**(beside or {}), **arguments}
    for key, value in arguments.items():
        _check_name(key, known)
        _check_value(key, value, known.arguments[key])
        _check_usable(key, value)
        if (reason := idle(key, stage, together)) is not None and value is not None:
            message = f"{key} is not accepted: {reason}"
            raise ArgumentRefused(key, ArgumentProblem.NO_EFFECT, message)


def check_template(name: str) -> None:
    """Check a template name; raises InvalidRequest that names the nearest one."""
    templates = catalogue().templates
    if name not in templates:
        nearest = next(iter(difflib.get_close_matches(name, templates, n=1)), None)
        hint = f"; the nearest one is {nearest}" if nearest else ""
        raise InvalidRequest(
            f"{name[:100]} is not a template of LLaMA-Factory{hint}", param="template"
        )


def refusal(key: str) -> tuple[ArgumentProblem, str] | None:
    """Why a known argument is closed to clients, or None for one that is open."""
    for problem, table in (
        (ArgumentProblem.PLATFORM_OWNED, _PLATFORM_OWNED),
        (ArgumentProblem.UNSAFE, _UNSAFE),
        (ArgumentProblem.NO_EFFECT, _WITHOUT_EFFECT),
    ):
        for reason, keys in table.items():
            if key in keys or any(k.endswith("*") and key.startswith(k[:-1]) for k in keys):
                return problem, reason
    return None


def _check_name(key: str, known: Catalogue) -> None:
    if key not in known.arguments:
        open_keys = [name for name in known.arguments if refusal(name) is None]
        nearest = next(iter(difflib.get_close_matches(key, open_keys, n=1)), None)
        hint = f"; the nearest known one is {nearest}" if nearest else ""
        raise ArgumentRefused(
            key,
            ArgumentProblem.UNKNOWN,
            f"{key[:100]} is not an argument of LLaMA-Factory {known.llamafactory}{hint}",
            nearest=nearest,
        )
    closed = refusal(key)
    if closed is not None:
        problem, reason = closed
        raise ArgumentRefused(key, problem, f"{key} cannot be set: {reason}")


def _check_value(key: str, value: JsonValue, argument: Argument) -> None:
    types = [name for name in argument.types if not (name == "string" and key in _FILE_OR_OBJECT)]
    if not any(_is_a(value, name) for name in types):
        raise ArgumentRefused(
            key,
            ArgumentProblem.WRONG_TYPE,
            f"{key} must be {' or '.join(types)}, not {_type_name(value)}",
        )
    if argument.choices and isinstance(value, str) and value not in argument.choices:
        raise ArgumentRefused(
            key,
            ArgumentProblem.BAD_CHOICE,
            f"{key} must be one of {', '.join(argument.choices)}, not {value[:100]!r}",
        )


def _check_usable(key: str, value: JsonValue) -> None:
    """Refuse values that LLaMA-Factory would only reject once the training begins."""
    package = _OPTIMIZER_SWITCHES.get(key) if value is True else None
    if key == "optim" and isinstance(value, str):
        found = (name for prefix, name in _OPTIMIZER_PACKAGES if value.startswith(prefix))
        package = next(found, None)
    if package is not None:
        message = f"{key} {value} needs {package}, which the training runtime does not have"
        raise ArgumentRefused(key, ArgumentProblem.UNSAFE, message)
    if key == "pref_loss" and value == "kto_pair":
        message = "pref_loss kto_pair has been retired; method kto takes its place"
        raise ArgumentRefused(key, ArgumentProblem.BAD_CHOICE, message)
    if key in _NEVER_ZERO and value == 0:
        raise ArgumentRefused(key, ArgumentProblem.BAD_CHOICE, f"{key} must not be 0")
    least, most = _RANGES.get(key, (-math.inf, math.inf))
    if isinstance(value, int | float) and not least <= value <= most:
        message = f"{key} must be from {least:g} to {most:g}, not {value:g}"
        raise ArgumentRefused(key, ArgumentProblem.BAD_CHOICE, message)


def _is_a(value: JsonValue, type_name: str) -> bool:
    if type_name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if type_name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return _type_name(value) == type_name


def _type_name(value: JsonValue) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


# A string for one of these is the path of a file to read; only the object itself is accepted.
_FILE_OR_OBJECT = {"accelerator_config", "fsdp_config", "generation_config", "lr_scheduler_kwargs"}

_NEVER_ZERO = {"early_stopping_steps", "max_samples", "max_steps"}
_RANGES = {
    "dpo_label_smoothing": (0.0, 0.499),  # from one half on, the rejected answer is preferred
    "ld_alpha": (0.0, 1.0),  # LD-DPO, Liu et al. 2024, arXiv:2409.06411
}
"""Values outside make a loss that is none, and the library takes them."""
_OPTIMIZER_SWITCHES = {
    "use_adam_mini": "adam-mini",
    "use_apollo": "apollo-torch",
    "use_badam": "badam",
    "use_galore": "galore-torch",
}
_OPTIMIZER_PACKAGES = (
    ("galore_", "galore-torch"),
    ("apollo_", "apollo-torch"),
    ("adamw_anyprecision", "torchdistx"),
    ("adamw_apex", "apex"),
    ("adamw_torch_4bit", "torchao"),
    ("adamw_torch_8bit", "torchao"),
    ("adamw_torch_npu", "torch-npu"),
    ("adamw_torch_xla", "torch-xla"),
    ("adalomo", "lomo-optim"),
    ("lomo", "lomo-optim"),
    ("grokadamw", "grokadamw"),
    ("schedule_free_", "schedulefree"),
    ("stable_adamw", "torch-optimi"),
)
"""Optimizers by the beginning of their names, and packages of theirs in none of our locks."""

# Reason -> names; a name ending in * stands for everything that starts so.
_PLATFORM_OWNED: dict[str, set[str]] = {
    "the model is the request's own field": {
        "adapter_folder",
        "adapter_name_or_path",
        "model_name_or_path",
        "model_revision",
    },
    "a model has one adapter; merge it first, and train from the merged model": {
        "create_new_adapter"
    },
    "the data are the request's own fields": {
        "dataset",
        "dataset_dir",
        "data_shared_file_system",
        "eval_dataset",
        "media_dir",
        "interleave_probs",
        "mix_strategy",
        "overwrite_cache",
        "streaming",
        "tokenized_path",
    },
    "it is the request's own field": {"seed", "template"},
    "the method is the request's own field": {"finetuning_type", "stage"},
    "the platform decides what a job runs": {
        "do_eval",
        "do_predict",
        "do_train",
        "enable_jit_checkpoint",
        "eval_num_beams",
        "generation_config",
        "restore_callback_states_from_checkpoint",
    },
    "it is the request's field generation": {"max_new_tokens", "predict_with_generate"},
    "the platform chooses where files are kept": {
        "cache_dir",
        "logging_dir",
        "offload_folder",
        "output_dir",
        "overwrite_output_dir",
        "profiler_output_dir",
        "resume_from_checkpoint",
        "save_on_each_node",
        "save_only_model",
    },
    "the platform reports the progress of jobs": {
        "debug",
        "disable_tqdm",
        "enable_torch_profiler",
        "include_num_input_tokens_seen",
        "log_level*",
        "log_on_each_node",
        "logging_nan_inf_filter",
        "plot_loss",
        "print_param_status",
        "profile*",
        "project",
        "report_to",
        "run_name",
        "swanlab_*",
        "trackio_space_id",
        "use_swanlab",
    },
    "nothing is published from a job": {
        "export_*",
        "hub_*",
        "push_to_hub*",
    },
    "access tokens are the operator's settings": {"hf_hub_token", "ms_hub_token", "om_hub_token"},
    "the platform assigns devices and processes": {
        "local_rank",
        "master_addr",
        "master_port",
        "quantization_device_map",
        "ray_*",
        "use_cpu",
    },
    "models are served elsewhere": {"infer_*", "sglang_*", "vllm_*"},
    "it belongs to another training stage": {"ref_model*", "reward_model*"},
    "rows stay as the trainer prepares them": {
        "label_names",
        "length_column_name",
        "remove_unused_columns",
    },
}
_WITHOUT_EFFECT: dict[str, set[str]] = {
    "only text is trained on": {
        "audio_sampling_rate",
        "crop_to_patches",
        "image_*",
        "use_audio_in_video",
        "video_*",
    },
    "generation.max_tokens and num_beams take its place": {
        "generation_max_length",
        "generation_num_beams",
        "max_length",
    },
    "it is read where predictions are stored, which a training does not do": {
        "skip_special_tokens"
    },
    "data are not streamed": {"buffer_size"},
    "validation files with metrics of their own are the request's validation_files": {
        "eval_on_each_dataset"
    },
    "the library does not read it": {"sortish_sampler"},
    "the library leaves it off, or fails with rows longer than the model's positions; "
    "rope_parameters in the config.json of a registered model take its place": {"rope_scaling"},
    "its training type oft is not offered": {"oft_*"},
    "its optimizer's package is not in the training runtime": {
        *("apollo_*", "badam_*", "galore_*"),
    },
}
_UNSAFE: dict[str, set[str]] = {
    "code that comes with a model is not run": {"trust_remote_code"},
    "hyperparameters.sharding takes its place": {"deepspeed"},
    "it names a file on the server": {
        "hyper_parallel_args",
        "kt_*",
        "new_special_tokens_config",
    },
    "it loads a training backend that is not installed": {
        "mixture_of_depths",
        "parallelism_config",
        "use_hyper_parallel",
        "use_kt",
        "use_mca",
        "use_unsloth*",
        "use_v1_kernels",
    },
}
