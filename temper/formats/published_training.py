"""The training settings in run files of MindSpeed-RL, verl and slime, for an online job.

Every setting is mapped, rejected by name if dropping it would change training, or listed as
ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.training.methods import MethodType
from services.contracts.training.policy_loss import Aggregation
from temper.formats.decisive_sections import check_arguments, check_sections
from temper.formats.decisive_settings import (
    MINDSPEED,
    MINDSPEED_KL,
    MINDSPEED_KL_LOSS,
    VERL,
    VERL_KL_REWARD,
    check_allowed,
    check_critic,
    mindspeed_lora,
    verl_grad_norm,
    verl_lora,
)
from temper.formats.published_runs import (
    SLIME_PROMPT,
    SLIME_SAMPLES,
    SLIME_SAMPLING,
    MindSpeedRollout,
    RunSettings,
    Section,
    VerlData,
    VerlRollout,
    VerlTurns,
    is_bare_rollout,
    read_run_file,
)
from temper.formats.slime_scripts import MARK as SLIME
from temper.formats.slime_training import slime_hyperparameters, slime_method, with_defaults
from temper.formats.verl_losses import (
    CLIP,
    verl_advantage,
    verl_correction,
    verl_kl_estimator,
    verl_policy_loss,
)

CLIP_HIGH = 0.28
"""MindSpeed-RL's default for a higher upper bound."""
MOST_BATCHES = 65_536
"""Stands for the libraries' "no limit" on generated batches."""

_MINDSPEED_ESTIMATORS = {"group_norm": MethodType.REINFORCEMENT, "gae": MethodType.PPO}


@dataclass(frozen=True)
class PublishedTraining:
    """The training settings of a run file; ``ignored`` lists keys without a counterpart.

    ``epochs_key`` is set where the file counts epochs, whose steps follow from the data.
    """

    method: MethodType
    hyperparameters: dict[str, Any]
    seed: int | None
    ignored: tuple[str, ...]
    epochs_key: str | None = None


def read_published_training(path: Path) -> PublishedTraining:
    """Read a run file's training settings; raises InvalidRequest with the file and the key."""
    try:
        settings = read_run_file(path)
        if SLIME in settings:
            return slime_training(with_defaults(settings), settings)
        run = RunSettings(settings)
        if "rl_config" in settings:
            run.mark("rl_config", *MultiTurn.model_fields, *MindSpeedRollout.model_fields)
            run.mark("generate_config.sampling_config", *RolloutSampling.model_fields)
            run.mark("", "prompt_type", "rl_config.prompt_type")
            return mindspeed_training(run)
        rollout = "" if is_bare_rollout(settings) else "actor_rollout_ref.rollout"
        turns = f"{rollout}.multi_turn".strip(".")
        run.mark(rollout, *RolloutSampling.model_fields, *VerlRollout.model_fields)
        run.mark(turns, "enable", *MultiTurn.model_fields, *VerlTurns.model_fields)
        run.mark("data", *VerlData.model_fields)
        run.mark("", "prompt_type")
        return verl_training(run)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path.name}: {error.message}", param=error.param) from None


def mindspeed_training(run: RunSettings) -> PublishedTraining:
    """The training settings of a MindSpeed-RL file; raises InvalidRequest naming the key."""
    estimator, key = run.value("rl_config.adv_estimator") or "group_norm", "rl_config.adv_estimator"
    method = _method(estimator, key, _MINDSPEED_ESTIMATORS)
    steps = run.integer("megatron_training.train_iters")
    batch = run.integer("megatron_training.global_batch_size")
    is_asymmetric = run.flag("rl_config.clip_higher_enable")
    both = _or(run.number("rl_config.clip_ratio"), CLIP)
    low, high = run.number("rl_config.clip_ratio_low"), run.number("rl_config.clip_ratio_high")
    tokens = run.flag("rl_config.token_level_loss")
    kl = _mindspeed_kl(run, method)
    loss = {
        "clip_low": _or(low, CLIP) if is_asymmetric else both,
        "clip_high": _or(high, CLIP_HIGH) if is_asymmetric else both,
        "aggregation": (
            Aggregation.MEAN_OF_TOKENS if tokens else Aggregation.MEAN_OF_SEQUENCE_MEANS
        ).value,
        "entropy_bonus": run.number("rl_config.entropy_coeff"),
        "kl": kl,
    }
    hyperparameters = {
        "steps": steps,
        "prompts_per_step": batch,
        "mini_batches": _mini_batches(run, batch, "rl_config.mini_batch_size"),
        "checkpoint_steps": run.integer("megatron_training.save_interval"),
        "optimizer": {**_mindspeed_optimizer(run, steps), **mindspeed_lora(run)},
        "loss": loss,
        "overlong": _overlong(
            run,
            "rl_config.overlong_buffer_enable",
            "rl_config.overlong_buffer",
            "rl_config.overlong_buffer_penalty_factor",
        ),
        **_of_method(
            run,
            method,
            filter_keys=(
                "rl_config.filter_groups_enable",
                "rl_config.filter_groups_max_batches",
            ),
            discount_keys=("rl_config.gamma", "rl_config.lam", "rl_config.epochs"),
            critic_keys=("critic_config.lr", "rl_config.cliprange_value"),
        ),
    }
    seed = run.integer("megatron_training.seed")
    check_allowed(run, MINDSPEED)
    if kl is not None:
        check_allowed(run, MINDSPEED_KL, *([MINDSPEED_KL_LOSS] if kl["to"] == "loss" else []))
    return PublishedTraining(method, _compact(hyperparameters), seed, run.unread())


def verl_training(run: RunSettings) -> PublishedTraining:
    """The training settings of a verl file; raises InvalidRequest naming the key."""
    actor, algorithm = "actor_rollout_ref.actor", "algorithm"
    method, advantage = verl_advantage(run)
    steps = run.integer("trainer.total_training_steps")
    batch = run.integer("data.train_batch_size")
    kl = _kl(
        run,
        f"{actor}.use_kl_loss",
        f"{algorithm}.use_kl_in_reward",
        (f"{actor}.kl_loss_coef",),
        (f"{algorithm}.kl_ctrl.kl_coef",),
    )
    if kl is not None:
        kl["estimator"] = verl_kl_estimator(run, kl["to"])
    loss = {
        **verl_policy_loss(run),
        "entropy_bonus": run.number(f"{actor}.entropy_coeff"),
        "kl": kl,
    }
    hyperparameters = {
        "steps": steps,
        "prompts_per_step": batch,
        "mini_batches": _mini_batches(run, batch, f"{actor}.ppo_mini_batch_size"),
        "checkpoint_steps": _interval(run.integer("trainer.save_freq")),
        "eval_interval": _interval(run.integer("trainer.test_freq")),
        "eval_samples": run.integer("actor_rollout_ref.rollout.val_kwargs.n"),
        "chat_template_kwargs": run.value("data.apply_chat_template_kwargs"),
        "optimizer": {**_verl_optimizer(run, actor, steps), **verl_lora(run)},
        "loss": loss,
        "overlong": next(filter(None, [_verl_overlong(run, place) for place in _OVERLONG]), None),
        **_of_method(
            run,
            method,
            filter_keys=(
                f"{algorithm}.filter_groups.enable",
                f"{algorithm}.filter_groups.max_num_gen_batches",
            ),
            discount_keys=(f"{algorithm}.gamma", f"{algorithm}.lam", f"{actor}.ppo_epochs"),
            critic_keys=("critic.optim.lr", "critic.cliprange_value"),
        ),
    }
    if method is MethodType.REINFORCEMENT:
        hyperparameters["advantage"] = advantage
    check_allowed(run, VERL, *([VERL_KL_REWARD] if kl is not None and kl["to"] == "reward" else []))
    given = _compact(hyperparameters)
    given["loss"] = {**given.get("loss", {}), **verl_correction(run)}
    if method is MethodType.PPO:
        check_critic(run)
    check_sections(run, critic=method is MethodType.PPO)
    epochs = "trainer.total_epochs"
    counts = epochs if steps is None and run.value(epochs) is not None else None
    seed = run.integer("data.seed")
    return PublishedTraining(method, given, seed, run.unread(), counts)


def slime_training(settings: Section, own: Section) -> PublishedTraining:
    """The training settings of a script of slime, ``own`` without its defaults; raises
    InvalidRequest naming the argument."""
    run = RunSettings(settings)
    run.mark("", *SLIME_SAMPLING.values(), SLIME_SAMPLES, SLIME_PROMPT)
    found = slime_hyperparameters(run, own)
    given = _compact(found)
    given["loss"]["tis_cap"] = found["loss"]["tis_cap"]  # null: no correction
    epochs = "--num-epoch"
    counts = epochs if "steps" not in given and run.value(epochs) is not None else None
    seed = run.integer("--rollout-seed")
    check_arguments(run)
    return PublishedTraining(slime_method(run), given, seed, run.unread(), counts)


_MINDSPEED_KL = ("rl_config.kl_coef", "rl_config.init_kl_coef")
_WITHOUT_KL = "ray_dapo"
"""The stage of MindSpeed-RL whose loss has no KL penalty."""


def _method(estimator: Any, key: str, known: Mapping[str, MethodType]) -> MethodType:
    if not isinstance(estimator, str) or estimator not in known:
        message = f"{key} {str(estimator)[:80]!r} is not supported; known are {', '.join(known)}"
        raise InvalidRequest(message, param=key)
    return known[estimator]


def _mindspeed_optimizer(run: RunSettings, steps: int | None) -> dict[str, Any]:
    return {
        "learning_rate": run.number("actor_config.lr"),
        "weight_decay": run.number("actor_config.weight_decay"),
        "adam_beta1": run.number("actor_config.adam_beta1"),
        "adam_beta2": run.number("actor_config.adam_beta2"),
        "max_grad_norm": run.number("actor_config.clip_grad"),
        "warmup_steps": _warmup(
            run.integer("actor_config.lr_warmup_iters"),
            run.number("actor_config.lr_warmup_fraction"),
            steps,
        ),
    }


def _verl_optimizer(run: RunSettings, actor: str, steps: int | None) -> dict[str, Any]:
    betas, key = run.value(f"{actor}.optim.betas"), f"{actor}.optim.betas"
    if betas is not None and not (isinstance(betas, list) and len(betas) == 2):
        raise InvalidRequest(f"{key} is not a list of two numbers", param=key)
    beta1, beta2 = betas or (None, None)
    return {
        "learning_rate": run.number(f"{actor}.optim.lr"),
        "weight_decay": run.number(f"{actor}.optim.weight_decay"),
        "adam_beta1": beta1,
        "adam_beta2": beta2,
        "max_grad_norm": verl_grad_norm(run),
        "warmup_steps": _warmup(
            run.integer(f"{actor}.optim.lr_warmup_steps"),
            run.number(f"{actor}.optim.lr_warmup_steps_ratio"),
            steps,
        ),
    }


def _of_method(
    run: RunSettings,
    method: MethodType,
    *,
    filter_keys: tuple[str, str],
    discount_keys: tuple[str, str, str],
    critic_keys: tuple[str, str],
) -> dict[str, Any]:
    """Return the settings of one method; ignored ones are marked as read."""
    filters, limit = run.flag(filter_keys[0]), run.integer(filter_keys[1])
    gamma, lam = run.number(discount_keys[0]), run.number(discount_keys[1])
    epochs = run.integer(discount_keys[2])
    if method is MethodType.PPO:
        if filters:
            raise InvalidRequest(f"{filter_keys[0]}: PPO has no group filter", param=filter_keys[0])
        critic = {"learning_rate": run.number(critic_keys[0]), "clip": run.number(critic_keys[1])}
        return {"gamma": gamma, "gae_lambda": lam, "epochs": epochs, "critic": critic}
    if _or(epochs, 1) != 1:
        message = f"{discount_keys[2]} must be 1 without a critic: each batch is used for one epoch"
        raise InvalidRequest(message, param=discount_keys[2])
    batches = limit if limit is not None and limit > 0 else MOST_BATCHES
    return {"dynamic_sampling": {"max_batches": batches} if filters else None}


def _kl(
    run: RunSettings,
    in_loss: str,
    in_reward: str,
    loss_keys: tuple[str, ...],
    reward_keys: tuple[str, ...],
) -> dict[str, Any] | None:
    loss, reward = run.flag(in_loss), run.flag(in_reward)
    coefficients = {key: run.number(key) for key in dict.fromkeys((*loss_keys, *reward_keys))}
    if loss and reward:
        message = f"{in_loss} and {in_reward} are both true; choose one"
        raise InvalidRequest(message, param=in_reward)
    if not (loss or reward):
        return None
    keys = loss_keys if loss else reward_keys
    coefficient = next((coefficients[key] for key in keys if coefficients[key] is not None), None)
    if coefficient is None:
        raise InvalidRequest(f"{keys[0]} is missing", param=keys[0])
    return {"coefficient": coefficient, "to": "loss" if loss else "reward"} if coefficient else None


def _mindspeed_kl(run: RunSettings, method: MethodType) -> dict[str, Any] | None:
    """Return the KL penalty of the flags; without flags, the stage decides as in MindSpeed-RL: in
    the loss for GRPO, in the reward for PPO, none for DAPO."""
    flags = ("rl_config.use_kl_loss", "rl_config.use_kl_in_reward")
    if any(run.value(flag) is not None for flag in flags):
        return _kl(run, *flags, _MINDSPEED_KL, _MINDSPEED_KL)
    if run.value("megatron_training.stage") == _WITHOUT_KL:
        return None
    coefficient = next(filter(None, [run.number(key) for key in _MINDSPEED_KL]), None)
    to = "reward" if method is MethodType.PPO else "loss"
    return {"coefficient": coefficient, "to": to} if coefficient else None


def _overlong(run: RunSettings, enable: str, buffer: str, factor: str) -> dict[str, Any] | None:
    values = {"buffer": run.integer(buffer), "factor": run.number(factor)}
    return values if run.flag(enable) else None


_OVERLONG = (
    "reward_model.overlong_buffer",
    "reward_model.reward_kwargs.overlong_buffer_cfg",
    "reward.reward_kwargs.overlong_buffer_cfg",
)
"""Where releases of verl, and of its DAPO recipe, have the penalty."""


def _verl_overlong(run: RunSettings, place: str) -> dict[str, Any] | None:
    return _overlong(run, f"{place}.enable", f"{place}.len", f"{place}.penalty_factor")


def _mini_batches(run: RunSettings, batch: int | None, key: str) -> int | None:
    """Return the optimizer steps per batch: its number of mini-batches."""
    size = run.integer(key)
    if size is None or batch is None:
        return None
    if size < 1 or batch % size:
        raise InvalidRequest(f"{key} {size} does not divide a batch of {batch}", param=key)
    return batch // size


def _warmup(steps: int | None, share: float | None, total: int | None) -> int | None:
    if steps is not None and steps >= 0:
        return steps
    return None if share is None or total is None else round(share * total)


def _interval(steps: int | None) -> int | None:
    """Return None for verl's -1, "never", which has no counterpart."""
    return steps if steps is not None and steps > 0 else None


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _compact(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop missing values at any depth."""
    compacted = {
        name: _compact(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }
    return {name: value for name, value in compacted.items() if value != {}}
