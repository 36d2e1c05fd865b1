"""Which of LLaMA-Factory's arguments have an effect in a stage, beside which others, and which
determine what the trainer sees of a row, for OpenAPI.

Others are accepted too; `services.contracts.llamafactory.arguments` checks them all.
"""

from collections.abc import Mapping
from typing import Any

from services.contracts.llamafactory.names import Stage
from services.contracts.training.optimizer import TrainingType


def idle(key: str, stage: Stage, arguments: Mapping[str, Any]) -> str | None:
    """Why an argument would have no effect in a stage beside the others, or None if it has one.

    ``arguments`` are the job's under LLaMA-Factory's names, ``finetuning_type``, ``template``,
    ``eval_dataset`` and ``predict_with_generate`` among them.
    """
    stages = _STAGES_OF.get(key)
    if stages is not None and stage not in stages:
        where = f"in stage {' and '.join(stages)}" if stages else "in stage ppo"
        return f"it has an effect {where}, not in {stage.value}"
    losses = _LOSSES_OF.get(key)
    loss = arguments.get("pref_loss", "sigmoid")
    if losses is not None and loss not in losses:
        return f"it has an effect with pref_loss {' or '.join(losses)}, not with {loss}"
    training_type = arguments.get("finetuning_type", TrainingType.LORA.value)
    types = next((each for keys, each in _TYPES_OF.items() if key in keys), None)
    expands = key == "freeze_trainable_layers" and arguments.get("use_llama_pro")
    if types is not None and training_type not in (_EXPANDING if expands else types):
        wanted = " or ".join(types)
        return f"it has an effect with training_type {wanted}, not with {training_type}"
    if key in _NAMED_TEMPLATE and not arguments.get("template"):
        return f"it has an effect with a named template; {_NAMED_TEMPLATE[key]}"
    return None if arguments.get(key) in _OFF else _missing(key, arguments)


def _missing(key: str, arguments: Mapping[str, Any]) -> str | None:
    """The argument that another one lacks to have an effect, or None if it is there."""
    if key in _EVALUATING and arguments.get("eval_strategy") == "no":
        return "it has an effect with evaluations only, and eval_strategy is no"
    for needed, (keys, reason) in _NEEDED.items():
        if key in keys and all(arguments.get(name) in _OFF for name in needed):
            return f"it has an effect with {reason} only"
    return None


_OFF: tuple[object, ...] = (None, False, "no", 0, "", [])
"""Values that turn an argument off."""

_CHAT = (Stage.SFT, Stage.DPO, Stage.KTO, Stage.RM)
_STAGES_OF: dict[str, tuple[Stage, ...]] = {
    "asft_alpha": (Stage.SFT,),
    "compute_accuracy": (Stage.SFT,),
    "default_system": _CHAT,
    "dpo_label_smoothing": (Stage.DPO,),
    "eaft_alpha": (Stage.SFT,),
    "enable_thinking": _CHAT,
    "ignore_pad_token_for_loss": (Stage.SFT, Stage.DPO, Stage.KTO),
    "include_effective_tokens_per_second": (Stage.SFT, Stage.DPO),
    "kto_chosen_weight": (Stage.KTO,),
    "kto_rejected_weight": (Stage.KTO,),
    "label_smoothing_factor": (Stage.SFT, Stage.PT),
    "ld_alpha": (Stage.DPO,),
    "load_best_model_at_end": (Stage.SFT, Stage.DPO, Stage.KTO, Stage.PT),
    "mask_history": (Stage.SFT,),
    "neat_packing": (Stage.SFT,),
    "packing": (Stage.SFT, Stage.PT),
    "ppo_buffer_size": (),
    "ppo_epochs": (),
    "ppo_score_norm": (),
    "ppo_target": (),
    "ppo_whiten_rewards": (),
    "pref_bco_weight": (Stage.DPO,),
    "pref_beta": (Stage.DPO, Stage.KTO),
    "pref_ftx": (Stage.DPO, Stage.KTO),
    "pref_loss": (Stage.DPO,),
    "preserve_thinking": _CHAT,
    "simpo_gamma": (Stage.DPO,),
    "tool_format": _CHAT,
    "train_on_prompt": (Stage.SFT,),
    "use_asft_loss": (Stage.SFT,),
    "use_dft_loss": (Stage.SFT,),
    "use_eaft_loss": (Stage.SFT,),
}
_LOSSES_OF: dict[str, tuple[str, ...]] = {
    "dpo_label_smoothing": ("sigmoid",),
    "pref_bco_weight": ("sigmoid", "hinge", "ipo"),
    "simpo_gamma": ("simpo",),
}
_EXPANDING = (TrainingType.FREEZE, TrainingType.LORA)
"""Training types for which LLaMA Pro expands layers."""
_TYPES_OF: dict[frozenset[str], tuple[TrainingType, ...]] = {
    frozenset(
        {
            *("additional_target", "lora_alpha", "lora_dropout"),
            *("lora_rank", "lora_target", "loraplus_lr_embedding", "loraplus_lr_ratio"),
            *("module_dropout", "pissa_convert", "pissa_init", "pissa_iter"),
            *("double_quantization", "quantization_bit", "quantization_method"),
            *("quantization_type", "use_dora", "use_rslora"),
        }
    ): (TrainingType.LORA,),
    frozenset({"freeze_extra_modules", "freeze_trainable_layers", "freeze_trainable_modules"}): (
        TrainingType.FREEZE,
    ),
    frozenset({"use_llama_pro"}): _EXPANDING,
}

_VARIABLE = "variables of the model's own are chat_template_kwargs"
_NAMED_TEMPLATE = {
    "enable_thinking": _VARIABLE,
    "preserve_thinking": _VARIABLE,
    "tool_format": "the model's own template writes tools its own way",
}

_EVALUATING = frozenset({"early_stopping_steps", "eval_delay", "eval_on_start", "eval_steps"})
"""Arguments about evaluations during training."""

_NEEDED: dict[tuple[str, ...], tuple[frozenset[str], str]] = {
    ("eval_dataset", "val_size"): (
        frozenset(
            {
                *("batch_eval_metrics", "bf16_full_eval", "compute_accuracy"),
                *("early_stopping_steps", "eval_accumulation_steps", "eval_delay"),
                *("eval_on_start", "eval_steps", "eval_strategy"),
                *("eval_use_gather_object", "fp16_full_eval", "greater_is_better"),
                *("include_for_metrics", "load_best_model_at_end", "metric_for_best_model"),
                *("per_device_eval_batch_size", "prediction_loss_only"),
            }
        ),
        "a validation file",
    ),
    ("predict_with_generate",): (
        frozenset(
            {
                *("do_sample", "length_penalty", "num_beams"),
                *("repetition_penalty", "temperature", "top_k", "top_p"),
            }
        ),
        "generation",
    ),
    ("do_sample",): (frozenset({"temperature", "top_k", "top_p"}), "do_sample"),
    ("load_best_model_at_end", "early_stopping_steps"): (
        frozenset({"greater_is_better", "metric_for_best_model"}),
        "load_best_model_at_end or early_stopping_steps",
    ),
    ("quantization_bit",): (
        frozenset({"double_quantization", "quantization_type"}),
        "quantization_bit",
    ),
    ("pissa_init",): (frozenset({"pissa_convert", "pissa_iter"}), "pissa_init"),
    ("loraplus_lr_ratio",): (frozenset({"loraplus_lr_embedding"}), "loraplus_lr_ratio"),
    ("fsdp",): (frozenset({"fsdp_config"}), "fsdp"),
    ("fp8",): (frozenset({"fp8_backend", "fp8_enable_fsdp_float8_all_gather"}), "fp8"),
    ("dataloader_num_workers",): (
        frozenset({"dataloader_persistent_workers", "dataloader_prefetch_factor"}),
        "dataloader_num_workers",
    ),
    ("use_eaft_loss",): (frozenset({"eaft_alpha"}), "use_eaft_loss"),
    ("use_asft_loss",): (frozenset({"asft_alpha"}), "use_asft_loss"),
}
"""Arguments that have an effect only with one of others, and what these are called."""


def row_arguments(stage: Stage) -> dict[str, Mapping[str, Any]]:
    """The JSON Schema of each that has an effect in a stage."""
    return {
        name: schema
        for name, schema in ROW_ARGUMENTS.items()
        if idle(name, stage, {name: True}) is None
    }


ROW_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "cutoff_len": {
        "type": "integer",
        "description": "Tokens per sequence, before max_seq_length.",
    },
    "default_system": {
        "type": "string",
        "description": "The system message of rows without one.",
    },
    "mask_history": {
        "type": "boolean",
        "default": False,
        "description": "Whether only the last turn of a conversation has a loss.",
    },
    "packing": {
        "type": "boolean",
        "description": "Whether sequences hold several rows; text is cut into sequences, not off.",
    },
    "train_on_prompt": {
        "type": "boolean",
        "default": False,
        "description": "Whether what the model reads has a loss too, each turn once.",
    },
}
