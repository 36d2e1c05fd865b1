"""Settings of published run files that decide what is trained, beside those with a number: each is
mapped, or refused where it asks for what is not offered. Settings of the infrastructure are notes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.training.adaptation import TrainingType
from services.contracts.training.policy_loss import RatioLevel
from temper.formats.published_runs import RunSettings

Allowed = Mapping[str, tuple[Any, ...]]

VERL: Allowed = {
    "actor_rollout_ref.actor.optim.lr_scheduler_type": ("constant",),
    "actor_rollout_ref.actor.optim.optimizer": ("AdamW",),
    "actor_rollout_ref.actor.optim.optimizer_impl": ("torch.optim",),
    "actor_rollout_ref.actor.router_replay.mode": ("disabled",),
    "actor_rollout_ref.actor.optim.warmup_style": ("constant",),
    "actor_rollout_ref.model.exclude_modules": (),
    "actor_rollout_ref.model.lora_adapter_path": (),
    "actor_rollout_ref.rollout.do_sample": (True,),
    "actor_rollout_ref.rollout.ignore_eos": (False,),
    "algorithm.filter_groups.metric": ("acc", "score", "seq_reward", "seq_final_reward"),
    "algorithm.rollout_correction.bypass_mode": (False,),
    "algorithm.rollout_correction.rollout_is_batch_normalize": (False,),
    "algorithm.rollout_correction.rollout_rs": (),
    "algorithm.use_pf_ppo": (False,),
    "data.shuffle": (True,),
    "trainer.critic_warmup": (0,),
}
"""Keys of verl with the values that a training here has; empty: only null."""

VERL_KL_LOSS: Allowed = {"actor_rollout_ref.actor.kl_loss_type": ("low_var_kl", "k3")}
VERL_KL_REWARD: Allowed = {
    "algorithm.kl_penalty": ("kl", "k1"),
    "algorithm.kl_ctrl.type": ("fixed",),
}
MINDSPEED: Allowed = {"actor_config.lr_decay_style": ("constant",)}
MINDSPEED_KL: Allowed = {"rl_config.kl_ctrl_type": ("fixed",)}
MINDSPEED_KL_LOSS: Allowed = {"rl_config.kl_penalty": ("low_var_kl", "k3")}

_ALL_LAYERS = ("all-linear", "all")
_MINDSPEED_LAYERS = {
    "linear_qkv": ("q_proj", "k_proj", "v_proj"),
    "linear_proj": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"),
    "linear_fc2": ("down_proj",),
}
"""Megatron's names of layers, and the modules that they stand for."""


def check_allowed(run: RunSettings, *tables: Allowed) -> None:
    """Raise InvalidRequest, naming the key, for a value that a training here cannot have."""
    for table in tables:
        for key, allowed in table.items():
            value = run.value(key)
            if value is not None and value not in allowed:
                known = f"only {' or '.join(map(str, allowed))} is" if allowed else "it is not"
                raise _refused(key, f"{str(value)[:80]!r} is not supported: {known} offered")


def verl_lora(run: RunSettings) -> dict[str, Any]:
    """The optimizer's settings of a LoRA run; empty for a full one. Raises InvalidRequest."""
    model = "actor_rollout_ref.model"
    rank, alpha = run.integer(f"{model}.lora_rank"), run.integer(f"{model}.lora_alpha")
    return _lora(rank, alpha, 16, _modules(run, f"{model}.target_modules"))


def mindspeed_lora(run: RunSettings) -> dict[str, Any]:
    """The same for a file of MindSpeed-RL, which names Megatron's layers."""
    found: dict[str, Any] = {}
    for section in ("megatron_training", "actor_config"):
        rank, alpha = run.integer(f"{section}.lora_r"), run.integer(f"{section}.lora_alpha")
        key = f"{section}.lora_target_modules"
        layers = _modules(run, key)
        for layer in layers or ():
            if layer not in _MINDSPEED_LAYERS:
                known = ", ".join(_MINDSPEED_LAYERS)
                raise _refused(key, f"{str(layer)[:80]!r} is unknown; known are {known}")
        modules = [module for layer in layers or () for module in _MINDSPEED_LAYERS[layer]]
        found = found or _lora(rank, alpha, 32, modules or None)
    return found


def verl_ratio(run: RunSettings) -> str | None:
    """The level of importance ratios by the loss; raises InvalidRequest for an unknown one."""
    key = "actor_rollout_ref.actor.policy_loss.loss_mode"
    mode = run.value(key)
    known = {None: None, "vanilla": None, "gspo": RatioLevel.SEQUENCE.value}
    if mode not in known:
        raise _refused(key, f"{str(mode)[:80]!r} is not supported; known are vanilla, gspo")
    return known[mode]


def verl_tis_cap(run: RunSettings) -> dict[str, float | None]:
    """The cap of truncated importance sampling, null where the file turns it off; empty where it
    does not say. Raises InvalidRequest."""
    older = run.number("actor_rollout_ref.actor.tis_imp_ratio_cap")
    key = "algorithm.rollout_correction.rollout_is"
    level = run.value(key)
    cap = run.number("algorithm.rollout_correction.rollout_is_threshold")
    if level not in (None, "token"):
        raise _refused(key, f"{str(level)[:80]!r} is not supported: only token is offered")
    if level is not None:
        return {"tis_cap": 2.0 if cap is None else cap}
    return {} if older is None else {"tis_cap": older if older > 0 else None}


def _lora(
    rank: int | None, alpha: int | None, default_alpha: int, modules: Sequence[str] | None
) -> dict[str, Any]:
    if not rank or rank < 0:
        return {}
    lora = {"rank": rank, "alpha": alpha or default_alpha, "target_modules": modules}
    return {"training_type": TrainingType.LORA.value, "lora": lora}


def _modules(run: RunSettings, key: str) -> list[str] | None:
    """Named modules; None for all linear ones."""
    value = run.value(key)
    if value is None or value in _ALL_LAYERS:
        return None
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _refused(key, "is not a list of modules' names")
    return value


def _refused(key: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{key} {reason}", param=key)
