"""Published recipes of reinforcement learning, as the settings that they stand for.

The ratios of the papers are relative to the policy that sampled, before an update. That is the
learner's own, up to rounding, where ``max_staleness`` is 0. Where it is not, the weights that
sampled are older, and ratios to the sampler (``anchor``) are the papers'.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from services.contracts.base import JsonObject, given_fields
from services.contracts.training.objectives import Objective, unread_fields
from services.contracts.training.policy_loss import Aggregation, RatioLevel
from services.contracts.validation import AtField


class Recipe(StrEnum):
    """A published recipe of the method reinforcement."""

    GRPO = "grpo"
    DAPO = "dapo"
    DR_GRPO = "dr_grpo"
    GSPO = "gspo"
    CISPO = "cispo"
    DPPO = "dppo"
    RLOO = "rloo"


class PpoRecipe(StrEnum):
    """A published recipe of the method ppo."""

    PPO = "ppo"


_SYMMETRIC = {"clip_low": 0.2, "clip_high": 0.2}
_RECIPES: Mapping[str, JsonObject] = {
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
    # MiniMax 2025, arXiv:2506.13585, section 3.1: no lower bound in effect; SkyRL's upper one.
    # With a single step per batch no ratio would differ from 1, and nothing be clipped.
    Recipe.CISPO: {
        "advantage": "grpo",
        "mini_batches": 16,
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
    # Huang et al. 2024, arXiv:2403.17031, after Stiennon et al. 2020, arXiv:2009.01325: PPO as a
    # model learns from preferences. Learning rates depend on the model, and are not part of it.
    PpoRecipe.PPO: {
        "prompts_per_step": 512,
        "samples_per_prompt": 1,
        "epochs": 4,
        "mini_batches": 1,
        "gamma": 1.0,
        "gae_lambda": 0.95,
        "whiten_advantages": True,
        "loss": {
            **_SYMMETRIC,
            "aggregation": "token-mean",
            "tis_cap": None,
            "kl": {"coefficient": 0.05, "to": "reward", "estimator": "k1"},
        },
        "critic": {"kind": "separate", "clip": 0.2},
    },
}


def refuse_recipe_of(recipes: type[StrEnum], method: str, value: Any) -> Any:
    """Return the name of a recipe; ValueError for one of another method's ``recipes``."""
    if isinstance(value, str) and value in list(recipes):
        raise ValueError(f"{value} is a recipe of the method {method}")
    return value


def resolved(value: JsonObject, recipes: type[StrEnum]) -> JsonObject:
    """Settings with those of their ``recipe`` filled in, if it is one of ``recipes``; what is given
    counts more.

    With a ``max_staleness`` above 0 ratios are relative to the sampler, unless the request gives
    the anchor or a correction of its own. Of the recipe's loss those fields are left out that the
    given objective does not read. Raises `AtField` for a given ratio that the recipe's aggregation
    does not go with.
    """
    name = value.get("recipe")
    if not isinstance(name, str) or name not in list(recipes):
        return value
    recipe = _RECIPES[name]
    loss = _given(value.get("loss"))
    objective = loss.get("objective") if isinstance(loss, Mapping) else None
    if isinstance(objective, str) and objective in list(Objective):
        unread = unread_fields(Objective(objective))
        read = {field: each for field, each in recipe["loss"].items() if field not in unread}
        recipe = {**recipe, "loss": read}
    _check_ratio(name, loss, recipe["loss"])
    if _is_stale(value) and not _corrects(loss):
        recipe = {**recipe, "loss": {**recipe["loss"], "anchor": "sampler"}}
    filled: JsonObject = _filled(value, recipe)
    return filled


def _is_stale(value: JsonObject) -> bool:
    """Whether tokens may be older than the weights that learn from them; what is not a number is
    refused where it is read."""
    staleness = value.get("max_staleness")
    return isinstance(staleness, int) and staleness > 0


def _corrects(loss: Any) -> bool:
    """Whether a given loss says itself how tokens of other weights are corrected, or that they are
    not."""
    return isinstance(loss, Mapping) and ("anchor" in loss or "tis_cap" in loss)


def _check_ratio(recipe: str, given: Any, loss: JsonObject) -> None:
    """Refuse a given ratio of sequences to a recipe whose aggregation, not given, is another."""
    if not isinstance(given, Mapping) or "aggregation" in given:
        return
    asked = {"objective": Objective.CLIP, **loss, **given}
    of_sequences = asked.get("ratio") in (RatioLevel.SEQUENCE, RatioLevel.WITHIN_SEQUENCE)
    wanted = Aggregation.MEAN_OF_SEQUENCE_MEANS.value
    if of_sequences and asked["objective"] == Objective.CLIP and asked["aggregation"] != wanted:
        raise AtField(
            ("loss", "ratio"),
            f"the ratio of a sequence (GSPO) requires aggregation {wanted}, and the recipe "
            f"{recipe} has {loss['aggregation']}",
        )


def _given(value: Any) -> Any:
    return given_fields(value) if isinstance(value, BaseModel) else value


def _filled(value: Any, defaults: Any) -> Any:
    if isinstance(defaults, Mapping):
        value = _given(value)
    if not isinstance(value, Mapping) or not isinstance(defaults, Mapping):
        return value
    return {
        **defaults,
        **{name: _filled(each, defaults.get(name)) for name, each in value.items()},
    }
