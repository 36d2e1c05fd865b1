"""Losses of verl as settings of ours: policy losses, estimators of advantages and divergences, and
corrections for samples that are not the policy's own.

Names, parameters and defaults are those of core_algos.py and rollout_corr_helper.py in
verl/trainer/ppo and of verl/trainer/config (0.6 to 0.9). What has no counterpart is refused.
"""

from collections.abc import Mapping
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.training.methods import MethodType
from services.contracts.training.objectives import Objective
from services.contracts.training.policy_loss import (
    AdvantageEstimator,
    Aggregation,
    Anchor,
    KlEstimator,
    RatioLevel,
    SequenceRatio,
)
from temper.formats.published_runs import RunSettings

CLIP = 0.2
"""The clip range of PPO."""

_ACTOR = "actor_rollout_ref.actor"
_CORRECTION = "algorithm.rollout_correction"
_ESTIMATOR = "algorithm.adv_estimator"
_WHOLE_RANGE = 1.0
"""A lower bound of 1 below 1 is none: ratios are positive."""

_ADVANTAGES: Mapping[str, tuple[MethodType, AdvantageEstimator | None]] = {
    "gae": (MethodType.PPO, None),
    "grpo": (MethodType.REINFORCEMENT, None),
    "grpo_vectorized": (MethodType.REINFORCEMENT, None),
    "rloo": (MethodType.REINFORCEMENT, AdvantageEstimator.RLOO),
    "rloo_vectorized": (MethodType.REINFORCEMENT, AdvantageEstimator.RLOO),
}
_REWARD_KL = {
    **dict.fromkeys(("kl", "k1"), KlEstimator.K1),
    **dict.fromkeys(("mse", "k2"), KlEstimator.K2),
    **dict.fromkeys(("low_var_kl", "k3"), KlEstimator.K3),
}
LOSS_KL: Mapping[str, KlEstimator] = {
    **_REWARD_KL,
    # Each with a plus has the value of its estimator and the gradient of k2.
    **{f"{name}+": KlEstimator.K2 for name in (*_REWARD_KL, "abs")},
}
"""Estimators of the divergence in a loss."""
REWARD_KL: Mapping[str, KlEstimator] = {
    **_REWARD_KL,
    **{f"{name}+": estimator for name, estimator in _REWARD_KL.items()},
}
"""Estimators of the divergence in rewards, which have no gradient."""


def verl_advantage(run: RunSettings) -> tuple[MethodType, str | None]:
    """The method of the advantage estimator, and its name; raises InvalidRequest."""
    name = run.value(_ESTIMATOR) or "grpo"
    method, advantage = _ADVANTAGES[_known(_ESTIMATOR, name, _ADVANTAGES)]
    if method is MethodType.PPO or advantage is not None:
        return method, advantage
    by_std = run.value("algorithm.norm_adv_by_std_in_grpo")
    return method, AdvantageEstimator.DR_GRPO.value if by_std is False else None


def verl_policy_loss(run: RunSettings) -> dict[str, Any]:
    """Objective, clipping, ratios and aggregation, by the loss's mode; raises InvalidRequest for an
    unknown one."""
    key = f"{_ACTOR}.policy_loss.loss_mode"
    clip, dual = _clipping(run), run.number(f"{_ACTOR}.clip_ratio_c")
    aggregation = _aggregation(run)
    modes: dict[str, dict[str, Any]] = {
        "vanilla": {**clip, "dual_clip": dual},
        "gspo": {**clip, "ratio": RatioLevel.WITHIN_SEQUENCE.value},
        "cispo": {**clip, "objective": Objective.CISPO.value},
        "sapo": {
            "objective": Objective.SAPO.value,
            "gate_temperatures": [_actor(run, "tau_pos", 1.0), _actor(run, "tau_neg", 1.05)],
        },
        "clip_cov": {
            **clip,
            "objective": Objective.CLIP_COV.value,
            "covariance": {
                "share": _actor(run, "policy_loss.clip_cov_ratio", 2e-4),
                "low": _actor(run, "policy_loss.clip_cov_lb", 1.0),
                "high": _actor(run, "policy_loss.clip_cov_ub", 5.0),
            },
        },
        "kl_cov": {
            "objective": Objective.KL_COV.value,
            "covariance": {
                "share": _actor(run, "policy_loss.kl_cov_ratio", 2e-4),
                "kl": _actor(run, "policy_loss.ppo_kl_coef", 0.1),
            },
        },
    }
    mode = _known(key, run.value(key) or "vanilla", modes)
    if mode == "sapo":  # whose losses have one aggregation, whatever the file says
        aggregation = Aggregation.MEAN_OF_SEQUENCE_MEANS.value
    return {**modes[mode], "aggregation": aggregation}


def verl_kl_estimator(run: RunSettings, to: str) -> str | None:
    """The divergence of a penalty in the ``loss`` or the ``reward``; None where the file does not
    say. Raises InvalidRequest for an unknown one."""
    in_loss = to == "loss"
    key = f"{_ACTOR}.kl_loss_type" if in_loss else "algorithm.kl_penalty"
    known = LOSS_KL if in_loss else REWARD_KL
    value = run.value(key)
    return None if value is None else known[_known(key, value, known)].value


def verl_correction(run: RunSettings) -> dict[str, Any]:
    """Settings of the loss that correct for the sampler: weights and masks; ``tis_cap`` is null
    where the file turns weights off, and nothing is set where it does not say. Raises
    InvalidRequest."""
    if run.flag(f"{_CORRECTION}.bypass_mode"):
        return _bypass(run)
    level, levels = run.value(f"{_CORRECTION}.rollout_is"), ("token", "sequence")
    older = run.number(f"{_ACTOR}.tis_imp_ratio_cap")
    masks = _rejections(run)
    if level is None:
        is_off = isinstance(run.peek(_CORRECTION), Mapping)
        if older is None and not is_off:
            return masks
        return {**masks, "tis_cap": older if older is not None and older > 0 else None}
    _known(f"{_CORRECTION}.rollout_is", level, levels)
    low, cap = _weight_bounds(run)
    if low is None:
        return {**masks, "tis_cap": cap, "tis_level": level}
    name, mask = _mask(level, low, cap)
    if name in masks:
        key = f"{_CORRECTION}.rollout_rs"
        raise InvalidRequest(f"{key} and rollout_is_threshold both set {name}", param=key)
    return {**masks, name: mask, "tis_cap": cap, "tis_level": level}


def _bypass(run: RunSettings) -> dict[str, Any]:
    """Ratios to the sampler: verl then has the vanilla loss, without weights."""
    kind, mode = f"{_CORRECTION}.loss_type", f"{_ACTOR}.policy_loss.loss_mode"
    for key, known in ((kind, "ppo_clip"), (mode, "vanilla"), (f"{_CORRECTION}.rollout_rs", None)):
        value = run.value(key)
        if value not in (None, known):
            raise InvalidRequest(
                f"{key} {str(value)[:80]!r} is not supported with bypass_mode", param=key
            )
    run.mark(_CORRECTION, "rollout_is", "rollout_rs_threshold")
    run.mark(_ACTOR, "tis_imp_ratio_cap")
    return {"anchor": Anchor.SAMPLER.value, "tis_cap": None}


def _clipping(run: RunSettings) -> dict[str, float]:
    both = _actor(run, "clip_ratio", CLIP)
    low, high = _actor(run, "clip_ratio_low", both), _actor(run, "clip_ratio_high", both)
    return {"clip_low": min(low, _WHOLE_RANGE), "clip_high": high}


def _aggregation(run: RunSettings) -> str:
    key, known = f"{_ACTOR}.loss_agg_mode", [each.value for each in Aggregation]
    return _known(key, run.value(key) or Aggregation.MEAN_OF_TOKENS.value, known)


def _weight_bounds(run: RunSettings) -> tuple[float | None, float]:
    """The bounds of importance weights: weights are cut at the upper one and, where there is a
    lower one, tokens out of both are left out (IcePop)."""
    key = f"{_CORRECTION}.rollout_is_threshold"
    low, cap = _bounds(key, run.value(key) or 2.0)
    return low, cap


def _rejections(run: RunSettings) -> dict[str, Any]:
    """The masks of rejection sampling. Their bounds are those of p_sampler / p_old."""
    key, threshold = f"{_CORRECTION}.rollout_rs", f"{_CORRECTION}.rollout_rs_threshold"
    value = run.value(key)
    if value is None:
        return {}
    options = list(dict.fromkeys(each.strip() for each in str(value).split(",")))
    given = run.value(threshold)
    if given is None:
        raise InvalidRequest(f"{threshold} is missing", param=threshold)
    texts = str(given).split(",")
    if len(texts) not in (1, len(options)):
        raise InvalidRequest(
            f"{threshold} has not one value, nor one for each mask", param=threshold
        )
    masks: dict[str, Any] = {}
    for option, text in zip(options, texts * (len(options) // len(texts)), strict=True):
        low, high = _bounds(threshold, text)
        low = 1.0 / high if low is None else low
        name, mask = _mask(_known(key, option, _REJECTED), 1.0 / high, 1.0 / low)
        if name in masks:
            raise InvalidRequest(f"{key} sets {name} twice", param=key)
        masks[name] = mask
    return masks


_REJECTED = ("token_k1", "seq_sum_k1", "seq_mean_k1")


def _mask(of: str, low: float, high: float) -> tuple[str, Any]:
    """The name and value of a mask, by what verl calls it."""
    if of in ("token", "token_k1"):
        return "token_mask", [low, high]
    ratio = SequenceRatio.GEOMETRIC if of == "seq_mean_k1" else SequenceRatio.PRODUCT
    return "sequence_mask", {"ratio": ratio.value, "low": low, "high": high}


def _bounds(key: str, value: Any) -> tuple[float | None, float]:
    """``2.0``, or two bounds as ``0.5_5.0``; raises InvalidRequest for others."""
    try:
        *lower, high = (float(part) for part in str(value).split("_"))
    except ValueError:
        raise InvalidRequest(
            f"{key} is {str(value)[:80]!r}, not a number or LOW_HIGH", param=key
        ) from None
    if len(lower) > 1 or not all(0 < each < float("inf") for each in (*lower, high)):
        raise InvalidRequest(f"{key} is {str(value)[:80]!r}, not a number or LOW_HIGH", param=key)
    return (lower[0] if lower else None), high


def _actor(run: RunSettings, name: str, default: float) -> float:
    value = run.number(f"{_ACTOR}.{name}")
    return default if value is None else value


def _known(key: str, value: Any, known: Any) -> str:
    if not isinstance(value, str) or value not in known:
        message = f"{key} {str(value)[:80]!r} is not supported; known are {', '.join(known)}"
        raise InvalidRequest(message, param=key)
    return value
