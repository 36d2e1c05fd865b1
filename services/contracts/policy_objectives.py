"""Objectives of online training beyond the clipped surrogate, and corrections for samples that are
not the trained policy's own.
"""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from services.contracts.base import Number, Request

Ratio = Annotated[Number, Field(ge=0.0, le=1e6)]


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

ExtensionName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")]


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
            raise ValueError("low must be below high")
        return self


class Anchor(StrEnum):
    """The log-probabilities that ratios are relative to."""

    OLD = "old"  # the learner's, before the update
    SAMPLER = "sampler"  # the engine's, as sampled: no further forward pass, no tis_cap


class SequenceRatio(StrEnum):
    """The ratio p_old / p_sampler of a whole response."""

    GEOMETRIC = "geometric"  # the geometric mean of its tokens' ratios
    PRODUCT = "product"  # their product


_BOUNDS = {SequenceRatio.GEOMETRIC: (0.99, 1.01), SequenceRatio.PRODUCT: (0.5, 2.0)}


class SequenceMask(Request):
    """Leaves out responses whose ratio p_old / p_sampler is out of bounds.

    By default they are 0.99 and 1.01 for the geometric mean, 0.5 and 2 for the product.
    """

    ratio: SequenceRatio = Field(
        default=SequenceRatio.GEOMETRIC, description="Ratio of a whole response."
    )
    low: Ratio = Field(description="Least ratio that is trained on.")
    high: Ratio = Field(description="Largest ratio that is trained on.")

    @model_validator(mode="before")
    @classmethod
    def _with_bounds(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        known = value.get("ratio", SequenceRatio.GEOMETRIC)
        if known not in set(SequenceRatio):
            return value
        low, high = _BOUNDS[SequenceRatio(known)]
        return {"low": low, "high": high, **value}

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        return self


class KlEstimator(StrEnum):
    """How the divergence from the reference is estimated, with d = log p - log p_ref."""

    K1 = "k1"  # d
    K2 = "k2"  # d^2 / 2
    K3 = "k3"  # exp(-d) - 1 + d
    UNBIASED = "unbiased"  # k3 times p / p_old, whose gradient is that of the divergence
