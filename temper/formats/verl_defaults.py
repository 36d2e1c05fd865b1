"""What a run file of verl inherits that begins with ``defaults: [ppo_trainer]``: the values of
verl's trainer/config/ppo_trainer.yaml (0.6) that decide what is trained."""

from collections.abc import Mapping
from typing import Any

INHERITED = "ppo_trainer"

# With both bounds set, as they are there, verl does not read clip_ratio.
_DEFAULTS: Mapping[str, Any] = {
    "algorithm": {
        "adv_estimator": "gae",
        "gamma": 1.0,
        "lam": 1.0,
        "kl_penalty": "kl",
        "kl_ctrl": {"type": "fixed", "kl_coef": 0.001},
    },
    "actor_rollout_ref": {
        "actor": {
            "clip_ratio_low": 0.2,
            "clip_ratio_high": 0.2,
            "clip_ratio_c": 3.0,
            "entropy_coeff": 0,
            "grad_clip": 1.0,
            "kl_loss_coef": 0.001,
            "kl_loss_type": "low_var_kl",
            "loss_agg_mode": "token-mean",
            "optim": {"lr": 1e-6, "weight_decay": 0.01, "betas": [0.9, 0.999]},
            "ppo_epochs": 1,
            "ppo_mini_batch_size": 256,
            "tis_imp_ratio_cap": -1,
        },
        "rollout": {"n": 1, "temperature": 1.0, "top_k": -1, "top_p": 1.0},
    },
    "critic": {"cliprange_value": 0.5, "optim": {"lr": 1e-5}},
    "data": {"max_prompt_length": 512, "max_response_length": 512, "train_batch_size": 1024},
    "trainer": {"total_epochs": 30},
}


def with_inherited(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a run file with those that it inherits, which its own replace key by key."""
    defaults = settings.get("defaults")
    if not isinstance(defaults, list) or INHERITED not in defaults:
        return settings
    own = {name: value for name, value in settings.items() if name != "defaults"}
    return _merged(_DEFAULTS, own)


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        name: _merged(base[name], value)
        for name, value in own.items()
        if isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
    }
    return {**base, **own, **both}
