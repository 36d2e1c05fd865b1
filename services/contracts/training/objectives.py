"""Objectives of online training, and which fields of the loss each of them reads."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from services.contracts.base import Number, Request
from services.contracts.validation import AtField, given_of


class Objective(StrEnum):
    """What a token adds to the loss, with its ratio r and advantage A."""

    CLIP = "clip"  # max(-A r, -A clip(r)) (PPO)
    CISPO = "cispo"  # -A clip(r) log p, where clip(r) has no gradient
    DPPO_TV = "dppo_tv"  # -A r, without tokens that would leave a region of total variation
    SAPO = "sapo"  # -A f(r), where f is a soft gate around r = 1
    CLIP_COV = "clip_cov"  # clip, without some tokens of a large covariance of log p and A
    KL_COV = "kl_cov"  # -A r, and |log r| for the tokens of the largest covariance
    EXTENSION = "extension"  # a function of an installed package


BY_COVARIANCE = (Objective.CLIP_COV, Objective.KL_COV)


class Covariance(Request):
    """Tokens by the covariance of their log-probability and advantage over the batch, which is what
    lowers the entropy (Cui et al. 2025, arXiv:2505.22617)."""

    share: Annotated[Number, Field(gt=0.0, le=1.0)] = Field(
        default=2e-4,
        description="Share of the batch's tokens: those of the largest covariance (kl_cov), or "
        "some between low and high (clip_cov).",
    )
    low: Number = Field(default=1.0, description="Least covariance of tokens of clip_cov.")
    high: Number = Field(default=5.0, description="Largest covariance of tokens of clip_cov.")
    kl: Annotated[Number, Field(ge=0.0, le=1e6)] = Field(
        default=1.0, description="Coefficient of the penalty |log p - log p_anchor| of kl_cov."
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low >= self.high:
            raise AtField(given_of(self, "low", "high"), "low must be below high")
        return self


_CLIP = frozenset({"clip_low", "clip_high"})
READ_FIELDS: Mapping[Objective, frozenset[str]] = {
    Objective.CLIP: _CLIP | {"dual_clip", "ratio"},
    Objective.CISPO: _CLIP,
    Objective.DPPO_TV: _CLIP,
    Objective.SAPO: frozenset({"gate_temperatures"}),
    Objective.CLIP_COV: _CLIP
    | {"dual_clip", "covariance.share", "covariance.low", "covariance.high"},
    Objective.KL_COV: frozenset({"covariance.share", "covariance.kl"}),
    Objective.EXTENSION: frozenset({"extension"}),
}
"""Of the fields of the loss that only some objectives read, those that each does, by their dotted
path. The fields that are not here have an effect with every objective."""


def unread_fields(objective: Objective) -> dict[str, tuple[Objective, ...]]:
    """The fields that have no effect with an objective, each with the objectives that read it."""
    every = sorted(frozenset[str]().union(*READ_FIELDS.values()))
    return {
        name: tuple(each for each, read in READ_FIELDS.items() if name in read)
        for name in every
        if name not in READ_FIELDS[objective]
    }
