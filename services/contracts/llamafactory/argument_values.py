"""Values that each of LLaMA-Factory's open arguments may have: bounds of numbers, names that are
read as code or looked up, and values whose package is in no runtime.

The library itself checks few of them, and those when the model is loaded. Every number that a
client may set has bounds; a test compares the table with the catalogue.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value; ``above`` and ``below`` exclude the bound itself. ``off``
    are values outside that turn the argument off."""

    least: float
    most: float = math.inf
    above: bool = False
    below: bool = False
    off: tuple[float, ...] = ()

    def contain(self, value: float) -> bool:
        """Whether a value may be used; infinity and NaN never may."""
        if value in self.off:
            return True
        over = value > self.least if self.above else value >= self.least
        return over and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        parts = [f"{'above' if self.above else 'at least'} {self.least:,}"]
        if self.most != math.inf:
            parts.append(f"{'below' if self.below else 'at most'} {self.most:,}")
        off = "".join(f", or {value:g}" for value in self.off)
        return " and ".join(parts) + off


_STEPS = Bounds(0, 10**9, above=True)
"""Steps between two events; below 1 a share of all steps."""
_MILLION = 10**6
_BATCH = Bounds(1, 4096)
_SHARE = Bounds(0, 1)
_MOMENTUM = Bounds(0, 1, below=True)
_RATE = Bounds(0, 1, above=True)
_WEIGHT = Bounds(0, 1000)
_FACTOR = Bounds(0, 1000, above=True)

BOUNDS: Mapping[str, Bounds] = {
    "adam_beta1": _MOMENTUM,
    "adam_beta2": _MOMENTUM,
    "adam_epsilon": _RATE,
    "asft_alpha": _WEIGHT,
    "cutoff_len": Bounds(16, 2**20),
    "data_seed": Bounds(0, 2**31 - 1),
    "dataloader_num_workers": Bounds(0, 64),
    "dataloader_prefetch_factor": Bounds(1, 1000),
    "ddp_bucket_cap_mb": Bounds(1, 10_000),
    "ddp_timeout": Bounds(1, 10**9),
    # From 0.5 on, the rejected answer is preferred.
    "dpo_label_smoothing": Bounds(0, 0.5, below=True),
    "eaft_alpha": _WEIGHT,
    "early_stopping_steps": Bounds(1, _MILLION),
    "eval_accumulation_steps": Bounds(1, _MILLION),
    "eval_delay": Bounds(0, 10**9),
    "eval_steps": _STEPS,
    # From the last layer, or with a minus sign from the first.
    "freeze_trainable_layers": Bounds(-1000, 1000),
    "gradient_accumulation_steps": Bounds(1, 65_536),
    "kto_chosen_weight": _WEIGHT,
    "kto_rejected_weight": _WEIGHT,
    "label_smoothing_factor": _MOMENTUM,
    "ld_alpha": _SHARE,  # LD-DPO, Liu et al. 2024, arXiv:2409.06411
    "learning_rate": _RATE,
    "length_penalty": Bounds(-100, 100),
    "logging_steps": _STEPS,
    "lora_alpha": Bounds(1, 4096),
    "lora_dropout": _MOMENTUM,
    "lora_rank": Bounds(1, 512),
    "loraplus_lr_embedding": _RATE,
    "loraplus_lr_ratio": _FACTOR,
    "max_grad_norm": Bounds(0, _MILLION),
    "max_samples": Bounds(1, 10**9),
    "max_steps": Bounds(1, 10**9, off=(-1,)),
    "module_dropout": _MOMENTUM,
    "moe_aux_loss_coef": _WEIGHT,
    "neftune_noise_alpha": _WEIGHT,
    "num_beams": Bounds(1, 64),
    "num_train_epochs": _FACTOR,
    "per_device_eval_batch_size": _BATCH,
    "per_device_train_batch_size": _BATCH,
    "pissa_iter": Bounds(1, 1000, off=(-1,)),
    "pref_bco_weight": _WEIGHT,
    "pref_beta": Bounds(0, 100, above=True),
    "pref_ftx": _WEIGHT,
    "preprocessing_batch_size": Bounds(1, _MILLION),
    "preprocessing_num_workers": Bounds(1, 256),
    "quantization_bit": Bounds(4, 8),
    "repetition_penalty": Bounds(0, 100, above=True),
    "save_steps": _STEPS,
    "save_total_limit": Bounds(1, _MILLION),
    "simpo_gamma": _WEIGHT,
    "temperature": Bounds(0, 100, above=True),
    "top_k": Bounds(0, _MILLION),
    "top_p": _RATE,
    "torch_empty_cache_steps": Bounds(1, _MILLION),
    "val_size": Bounds(0, 10**9),
    "warmup_ratio": _MOMENTUM,
    "warmup_steps": Bounds(0, 10**9),
    "weight_decay": _WEIGHT,
}

CHOICES: Mapping[str, tuple[JsonValue, ...]] = {
    "include_for_metrics": ("inputs", "loss"),  # each element
    "quantization_bit": (4, 8),
    "tool_format": (
        *("default", "gemma4", "glm4", "glm4_moe", "lfm2", "ling", "llama3", "minimax1"),
        *("minimax2", "mistral", "qwen", "qwen3_5", "seed_oss"),
    ),
    # torch looks other names up as modules.
    "torch_compile_backend": ("aot_eager", "cudagraphs", "eager", "inductor"),
    "torch_compile_mode": (
        *("default", "max-autotune", "max-autotune-no-cudagraphs", "reduce-overhead"),
    ),
}
"""Choices that the library does not declare."""

_NEVER_ZERO = frozenset({"freeze_trainable_layers"})

_PACKAGES: Mapping[str, Mapping[JsonValue, str]] = {
    "enable_liger_kernel": {True: "liger-kernel"},
    "flash_attn": {"fa2": "flash-attn", "fa3": "flash-attn"},
    "fp8": {True: "torchao"},
    "quantization_method": {
        "aqlm": "aqlm",
        "awq": "autoawq",
        "eetq": "eetq",
        "fp8": "a way to make FP8 weights",
        "gptq": "gptqmodel",
        "hqq": "hqq",
        "mxfp4": "a way to make MXFP4 weights",
        "quanto": "optimum-quanto",
    },
    "shift_attn": {True: "a transformers below 4.48"},
    "use_adam_mini": {True: "adam-mini"},
    "use_apollo": {True: "apollo-torch"},
    "use_badam": {True: "badam"},
    "use_galore": {True: "galore-torch"},
    "use_liger_kernel": {True: "liger-kernel"},
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
"""Optimizers by name prefix, and their packages, which no lock file of ours contains."""

SPEED_ONLY = frozenset({"enable_liger_kernel", "flash_attn", "use_liger_kernel"})
"""Arguments with a missing package that change how fast the same thing is computed."""

_SCHEDULES: Mapping[str, tuple[str, ...]] = {
    "cosine_warmup_with_min_lr": ("min_lr", "min_lr_rate"),
    "cosine_with_min_lr": ("min_lr", "min_lr_rate"),
    "warmup_stable_decay": ("num_decay_steps", "num_stable_steps"),
}
"""Schedules, and keys of lr_scheduler_kwargs of which they need one."""


def missing_package(key: str, value: JsonValue) -> str | None:
    """What the training runtime would need for a value but does not have."""
    if key == "optim" and isinstance(value, str):
        return next(
            (name for prefix, name in _OPTIMIZER_PACKAGES if value.startswith(prefix)), None
        )
    known = _PACKAGES.get(key, {})
    return known.get(value) if isinstance(value, bool | str) else None


def value_problem(key: str, value: JsonValue) -> str | None:
    """Why a value of the right type cannot be used, or None if it can."""
    bounds = BOUNDS.get(key)
    if bounds and isinstance(value, int | float) and not bounds.contain(value):
        return f"{key} must be {bounds}, not {value:g}"
    if key in _NEVER_ZERO and value == 0:
        return f"{key} must not be 0"
    for each in value if isinstance(value, list) else (value,):
        if key in CHOICES and each is not None and each not in CHOICES[key]:
            choices = ", ".join(map(str, CHOICES[key]))
            return f"{key} must be one of {choices}, not {str(each)[:100]!r}"
    return None


def schedule_problem(arguments: Mapping[str, Any]) -> str | None:
    """Why the learning rate's schedule could not be made from its arguments."""
    schedule = arguments.get("lr_scheduler_type")
    needed = _SCHEDULES.get(schedule) if isinstance(schedule, str) else None
    given = arguments.get("lr_scheduler_kwargs")
    if needed is None or (isinstance(given, Mapping) and any(key in given for key in needed)):
        return None
    return f"lr_scheduler_type {schedule} needs lr_scheduler_kwargs with {' or '.join(needed)}"
