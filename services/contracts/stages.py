"""LLaMA-Factory's training stages, and the arguments that have an effect in some of them only."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """A stage of LLaMA-Factory's that a method runs."""

    SFT = "sft"  # supervised
    DPO = "dpo"
    KTO = "kto"
    RM = "rm"  # reward_model
    PT = "pt"  # pretraining


def idle(key: str, stage: Stage, arguments: Mapping[str, Any]) -> str | None:
    """Why an argument would have no effect in a stage beside the others, or None if it has one."""
    stages = _STAGES_OF.get(key)
    if stages is not None and stage not in stages:
        where = f"in stage {' and '.join(stages)}" if stages else "in stage ppo"
        return f"it has an effect {where}, not in {stage.value}"
    losses = _LOSSES_OF.get(key)
    loss = arguments.get("pref_loss", "sigmoid")
    if losses is not None and loss not in losses:
        return f"it has an effect with pref_loss {' or '.join(losses)}, not with {loss}"
    return None


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
    "ld_alpha": (Stage.DPO,),
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
