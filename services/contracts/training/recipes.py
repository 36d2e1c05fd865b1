"""Published recipes of reinforcement learning, as the settings that they stand for."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from services.contracts.base import JsonObject


class Recipe(StrEnum):
    """A published recipe."""

    GRPO = "grpo"
    DAPO = "dapo"
    DR_GRPO = "dr_grpo"
    GSPO = "gspo"
    CISPO = "cispo"
    DPPO = "dppo"
    RLOO = "rloo"


_SYMMETRIC = {"clip_low": 0.2, "clip_high": 0.2}
_RECIPES: Mapping[Recipe, JsonObject] = {
    # Shao et al. 2024, arXiv:2402.03300, sections 4.1.1 and 4.2
    Recipe.GRPO: {
        "advantage": "grpo",
        "samples_per_prompt": 64,
        "loss": {
            **_SYMMETRIC,
            "aggregation": "seq-mean-token-mean",
            "tis_cap": None,
            "kl": {"coefficient": 0.04, "to": "loss", "estimator": "k3"},
        },
    },
    # Yu et al. 2025, arXiv:2503.14476, section 4.1
    Recipe.DAPO: {
        "advantage": "grpo",
        "prompts_per_step": 512,
        "samples_per_prompt": 16,
        "mini_batches": 16,
        "optimizer": {"learning_rate": 1e-6, "warmup_steps": 20},
        "sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 20_480},
        "loss": {
            "clip_low": 0.2,
            "clip_high": 0.28,
            "aggregation": "token-mean",
            "tis_cap": None,
            "kl": None,
        },
        "overlong": {"buffer": 4096, "factor": 1.0},
        "dynamic_sampling": {},
    },
    # Liu et al. 2025, arXiv:2503.20783
    Recipe.DR_GRPO: {
        "advantage": "dr_grpo",
        "loss": {
            **_SYMMETRIC,
            "aggregation": "seq-mean-token-sum-norm",
            "tis_cap": None,
            "kl": None,
        },
    },
    # Zheng et al. 2025, arXiv:2507.18071, section 5.1
    Recipe.GSPO: {
        "advantage": "grpo",
        "mini_batches": 4,
        "loss": {
            "ratio": "sequence",
            "clip_low": 3e-4,
            "clip_high": 4e-4,
            "aggregation": "seq-mean-token-mean",
            "tis_cap": None,
            "kl": None,
        },
    },
    # MiniMax 2025, arXiv:2506.13585, section 3.1: no lower bound in effect; SkyRL's upper one
    Recipe.CISPO: {
        "advantage": "grpo",
        "loss": {
            "objective": "cispo",
            "clip_low": 0.999,
            "clip_high": 5.0,
            "aggregation": "token-mean",
            "tis_cap": None,
            "kl": None,
        },
    },
    # arXiv:2602.04879, with the bounds of prime-rl
    Recipe.DPPO: {
        "advantage": "dr_grpo",
        "loss": {
            "objective": "dppo_tv",
            "anchor": "sampler",
            **_SYMMETRIC,
            "aggregation": "token-mean",
            "tis_cap": None,
            "kl": None,
        },
    },
    # Ahmadian et al. 2024, arXiv:2402.14740
    Recipe.RLOO: {
        "advantage": "rloo",
        "samples_per_prompt": 4,
        "loss": {
            **_SYMMETRIC,
            "aggregation": "seq-mean-token-sum-norm",
            "tis_cap": None,
            "kl": {"coefficient": 0.03, "to": "reward", "estimator": "k1"},
        },
    },
}


def resolved(value: JsonObject) -> JsonObject:
    """Settings with those of their ``recipe`` filled in; what is given counts more."""
    name = value.get("recipe")
    if name not in set(Recipe):
        return value
    filled: JsonObject = _filled(value, _RECIPES[Recipe(name)])
    return filled


def _filled(value: Any, defaults: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(defaults, Mapping):
        return value
    return {
        **defaults,
        **{name: _filled(each, defaults.get(name)) for name, each in value.items()},
    }
