"""Settings of published run files that decide what is trained, beside those with a number: each is
mapped, or refused where it asks for what is not offered. Settings of the infrastructure are notes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.training.optimizer import TrainingType
from temper.formats.published_runs import RunSettings

Allowed = Mapping[str, tuple[Any, ...]]

_ADAMW = ("AdamW", "adamw", "adam")
"""Its names in torch, veomni and Megatron, whose weight decay is decoupled too."""
_FLOAT32 = ("fp32", "float32", "torch.float32")

VERL: Allowed = {
    "actor_rollout_ref.actor.freeze_vision_tower": (False,),
    "actor_rollout_ref.actor.optim.lr_scheduler_type": ("constant",),
    "actor_rollout_ref.actor.optim.exp_avg_dtype": _FLOAT32,
    "actor_rollout_ref.actor.optim.exp_avg_sq_dtype": _FLOAT32,
    "actor_rollout_ref.actor.optim.lr_decay_style": ("constant",),
    "actor_rollout_ref.actor.optim.lr_warmup_init": (0,),
    "actor_rollout_ref.actor.optim.main_grads_dtype": _FLOAT32,
    "actor_rollout_ref.actor.optim.main_params_dtype": _FLOAT32,
    "actor_rollout_ref.actor.optim.optimizer": _ADAMW,
    "actor_rollout_ref.actor.optim.weight_decay_incr_style": ("constant",),
    "actor_rollout_ref.actor.optim.optimizer_impl": ("torch.optim",),
    "actor_rollout_ref.actor.optim.warmup_style": ("constant",),
    "actor_rollout_ref.actor.qat.enable": (False,),
    "actor_rollout_ref.actor.router_replay.mode": ("disabled",),
    "actor_rollout_ref.actor.shuffle": (False,),
    "actor_rollout_ref.model.exclude_modules": ([],),
    "actor_rollout_ref.model.lora.a2a_experimental": (False,),
    "actor_rollout_ref.model.lora.adapter_path": (),
    "actor_rollout_ref.model.lora.dropout_position": ("pre",),
    "actor_rollout_ref.model.lora.exclude_modules": ([],),
    "actor_rollout_ref.model.lora.lora_A_init_method": ("xavier", "kaiming"),
    "actor_rollout_ref.model.lora.lora_B_init_method": ("zero",),
    "actor_rollout_ref.model.lora.type": ("lora",),
    "actor_rollout_ref.model.lora_adapter_path": (),
    "actor_rollout_ref.model.mtp.enable": (False,),
    "actor_rollout_ref.rollout.agent.agent_loop_config_path": (),
    "actor_rollout_ref.rollout.agent.default_agent_loop": ("single_turn_agent", "tool_agent"),
    "actor_rollout_ref.rollout.do_sample": (True,),
    "actor_rollout_ref.rollout.enable_rollout_routing_replay": (False,),
    "actor_rollout_ref.rollout.ignore_eos": (False,),
    "actor_rollout_ref.rollout.multi_turn.function_tool_path": (),
    "actor_rollout_ref.rollout.multi_turn.interaction_config_path": (),
    "actor_rollout_ref.rollout.over_sample_rate": (0,),
    "actor_rollout_ref.rollout.presence_penalty": (0,),
    "actor_rollout_ref.rollout.frequency_penalty": (0,),
    "actor_rollout_ref.rollout.quantization": (),
    "actor_rollout_ref.rollout.quantization_config_file": (),
    "actor_rollout_ref.rollout.repetition_penalty": (1,),
    "actor_rollout_ref.rollout.use_fire_sampling": (False,),
    "algorithm.filter_groups.metric": ("acc", "score", "reward", "seq_reward", "seq_final_reward"),
    "algorithm.rollout_correction.rollout_is_batch_normalize": (False,),
    "algorithm.use_pf_ppo": (False,),
    "data.function_tool_path": (),
    "data.shuffle": (True,),
    "data.train_max_samples": (-1,),
    "distillation.enabled": (False,),
    "trainer.critic_warmup": (0,),
    "trainer.v1.sampler.custom_sampler.path": (),
    "trainer.v1.trainer_mode": ("sync",),
    "trainer.val_only": (False,),
}
"""Keys of verl with the values that a training here has; empty: only null."""
VERL_CRITIC: Allowed = {
    "critic.model.lora.rank": (0,),
    "critic.model.lora_rank": (0,),
    "critic.model.mtp.enable": (False,),
    "critic.optim.exp_avg_dtype": _FLOAT32,
    "critic.optim.exp_avg_sq_dtype": _FLOAT32,
    "critic.optim.lr_decay_style": ("constant",),
    "critic.optim.lr_scheduler_type": ("constant",),
    "critic.optim.main_grads_dtype": _FLOAT32,
    "critic.optim.main_params_dtype": _FLOAT32,
    "critic.optim.optimizer": _ADAMW,
    "critic.optim.optimizer_impl": ("torch.optim",),
    "critic.optim.warmup_style": ("constant",),
    "critic.optim.weight_decay_incr_style": ("constant",),
    "critic.shuffle": (False,),
}
"""The same where a critic is trained."""
_ACTOR = "actor_rollout_ref.actor"
_OF_THE_POLICY: Mapping[str, tuple[str, Any]] = {
    "critic.grad_clip": (f"{_ACTOR}.grad_clip", 1.0),
    "critic.loss_agg_mode": (f"{_ACTOR}.loss_agg_mode", "token-mean"),
    "critic.model.path": ("actor_rollout_ref.model.path", None),
    "critic.optim.betas": (f"{_ACTOR}.optim.betas", [0.9, 0.999]),
    "critic.optim.clip_grad": (f"{_ACTOR}.optim.clip_grad", 1.0),
    "critic.optim.lr_warmup_steps": (f"{_ACTOR}.optim.lr_warmup_steps", -1),
    "critic.optim.lr_warmup_steps_ratio": (f"{_ACTOR}.optim.lr_warmup_steps_ratio", 0.0),
    "critic.optim.weight_decay": (f"{_ACTOR}.optim.weight_decay", 0.01),
    "critic.ppo_epochs": (f"{_ACTOR}.ppo_epochs", 1),
    "critic.ppo_mini_batch_size": (f"{_ACTOR}.ppo_mini_batch_size", 256),
}
"""Settings of a critic that are those of the policy here, with verl's defaults of these."""

VERL_KL_REWARD: Allowed = {"algorithm.kl_ctrl.type": ("fixed",)}
MINDSPEED: Allowed = {"actor_config.lr_decay_style": ("constant",)}
MINDSPEED_KL: Allowed = {"rl_config.kl_ctrl_type": ("fixed",)}
MINDSPEED_KL_LOSS: Allowed = {"rl_config.kl_penalty": ("low_var_kl", "k3")}

_GRAD_NORM = 1.0
"""verl's default of either key."""
_ALL_LAYERS = ("all-linear", "all")
_MEGATRON_LAYERS = {
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


def check_critic(run: RunSettings) -> None:
    """Raise InvalidRequest, naming the key, for a critic that is trained in another way."""
    check_allowed(run, VERL_CRITIC)
    for key, (of_policy, default) in _OF_THE_POLICY.items():
        value, own = run.value(key), run.peek(of_policy)
        expected = default if own is None else own
        if None not in (value, expected) and value != expected:
            reason = f"is not supported: it must be that of {of_policy}"
            raise _refused(key, f"{str(value)[:80]!r} {reason}")


def verl_grad_norm(run: RunSettings) -> float | None:
    """The norm to which gradients are clipped, which two keys name; raises InvalidRequest where
    both ask for something."""
    keys = (f"{_ACTOR}.grad_clip", f"{_ACTOR}.optim.clip_grad")
    norms = {key: run.number(key) for key in keys}
    asked = {key: norm for key, norm in norms.items() if norm not in (None, _GRAD_NORM)}
    if len(set(asked.values())) > 1:
        raise _refused(keys[1], f"and {keys[0]} differ; choose one")
    return next(iter(asked.values()), next((each for each in norms.values() if each), None))


def verl_lora(run: RunSettings) -> dict[str, Any]:
    """The optimizer's settings of a LoRA run; empty for a full one. Raises InvalidRequest.

    verl's trainer on Megatron has a section of its own for it, with Megatron's names of layers.
    """
    model = "actor_rollout_ref.model"
    rank, alpha = run.integer(f"{model}.lora_rank"), run.integer(f"{model}.lora_alpha")
    own = _lora(rank, alpha, 16, _modules(run, f"{model}.target_modules"))
    section = f"{model}.lora"
    rank, alpha = run.integer(f"{section}.rank"), run.integer(f"{section}.alpha")
    layers, dropout = f"{section}.target_modules", run.number(f"{section}.dropout")
    if not rank or rank < 0:
        run.mark(section, "target_modules")
        return own
    if own:
        raise _refused(f"{section}.rank", "and lora_rank are both set; choose one")
    found = _lora(rank, alpha, 32, _megatron_modules(run, layers))
    return {**found, "lora": {**found["lora"], "dropout": dropout}}


def mindspeed_lora(run: RunSettings) -> dict[str, Any]:
    """The same for a file of MindSpeed-RL, which names Megatron's layers."""
    found: dict[str, Any] = {}
    for section in ("megatron_training", "actor_config"):
        rank, alpha = run.integer(f"{section}.lora_r"), run.integer(f"{section}.lora_alpha")
        key = f"{section}.lora_target_modules"
        modules = _megatron_modules(run, key)
        found = found or _lora(rank, alpha, 32, modules)
    return found


def _lora(
    rank: int | None, alpha: int | None, default_alpha: int, modules: Sequence[str] | None
) -> dict[str, Any]:
    if not rank or rank < 0:
        return {}
    lora = {"rank": rank, "alpha": alpha or default_alpha, "target_modules": modules}
    return {"training_type": TrainingType.LORA.value, "lora": lora}


def _megatron_modules(run: RunSettings, key: str) -> list[str] | None:
    """The modules of named layers of Megatron; None for all linear ones."""
    layers = _modules(run, key) or []
    for layer in layers:
        if layer not in _MEGATRON_LAYERS:
            known = ", ".join(_MEGATRON_LAYERS)
            raise _refused(key, f"{str(layer)[:80]!r} is unknown; known are {known}")
    return [module for layer in layers for module in _MEGATRON_LAYERS[layer]] or None


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
