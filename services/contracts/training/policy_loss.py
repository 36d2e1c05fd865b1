"""The loss of online training: its objective, advantages, ratios, corrections and penalties."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from services.contracts.base import Number, Request, given_fields
from services.contracts.training.objectives import READ_FIELDS, Covariance, Objective
from services.contracts.validation import AtField, given_of

Ratio = Annotated[Number, Field(ge=0.0, le=1e6)]


ExtensionName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")]


class Anchor(StrEnum):
    """The log-probabilities that ratios are relative to."""

    OLD = "old"  # the learner's, before the update
    SAMPLER = "sampler"  # the engine's, as sampled: no further forward pass, no tis_cap


class SequenceRatio(StrEnum):
    """The ratio p_old / p_sampler, or p / p_sampler with the anchor sampler, of a response."""

    GEOMETRIC = "geometric"  # the geometric mean of its tokens' ratios
    PRODUCT = "product"  # their product


_BOUNDS = {SequenceRatio.GEOMETRIC: (0.99, 1.01), SequenceRatio.PRODUCT: (0.5, 2.0)}


class SequenceMask(Request):
    """Leaves out responses whose ratio p_old / p_sampler is out of bounds; with the anchor sampler
    p / p_sampler, at each optimizer step.

    By default they are 0.99 and 1.01 for the geometric mean, 0.5 and 2 for the product.
    """

    ratio: SequenceRatio = Field(
        default=SequenceRatio.GEOMETRIC, description="Ratio of a whole response."
    )
    low: Ratio = Field(description="Least ratio that is trained on.")
    high: Ratio = Field(description="Largest ratio that is trained on.")

    @model_validator(mode="wrap")
    @classmethod
    def _with_bounds(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        """Fill in the bounds of the ratio, which do not count as given, and check their order."""
        bounds = _bounds_of(value)
        mask = read({**bounds, **value} if bounds else value)
        if bounds:
            mask.model_fields_set.difference_update(bounds.keys() - value.keys())
        if mask.low >= mask.high:
            raise AtField(given_of(mask, "low", "high"), "low must be below high")
        return mask


def _bounds_of(value: Any) -> dict[str, float]:
    """The bounds of a mask by the ratio that its body names; empty for no body or no ratio."""
    known = value.get("ratio", SequenceRatio.GEOMETRIC) if isinstance(value, dict) else None
    if not isinstance(known, str) or known not in _BOUNDS:
        return {}
    low, high = _BOUNDS[SequenceRatio(known)]
    return {"low": low, "high": high}


class KlEstimator(StrEnum):
    """How the divergence from the reference is estimated, with d = log p - log p_ref."""

    K1 = "k1"  # d
    K2 = "k2"  # d^2 / 2
    K3 = "k3"  # exp(-d) - 1 + d
    UNBIASED = "unbiased"  # k3 times p / p_anchor, whose gradient is that of the divergence


class Renamed(Request):
    """Settings with renamed fields, whose old names are rejected with the new one."""

    retired_names: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_retired_names(cls, value: Any) -> Any:
        for old, new in cls.retired_names.items():
            if isinstance(value, dict) and old in value:
                raise AtField(old, f"{old} has been renamed to {new}")
        return value


class AdvantageEstimator(StrEnum):
    """How the rewards of a prompt's samples become advantages."""

    GRPO = "grpo"  # (R - mean) / (std + 1e-6), in the group
    DR_GRPO = "dr_grpo"  # R - mean
    RLOO = "rloo"  # R - mean of the others in the group
    MAX_RL = "max_rl"  # (R - mean) / mean, in the group, of rewards that are not negative
    REINFORCE_PLUS_PLUS = "reinforce++"  # (R - mean) / (std + 1e-6), over the whole batch
    EXTENSION = "extension"  # a function of an installed package


class Aggregation(StrEnum):
    """How token losses are aggregated."""

    MEAN_OF_TOKENS = "token-mean"  # mean over all trained tokens of the batch (DAPO)
    MEAN_OF_SEQUENCE_MEANS = "seq-mean-token-mean"  # mean of sequence means (GRPO)
    MEAN_OF_SEQUENCE_SUMS = (
        "seq-mean-token-sum-norm"  # sequence sums over a constant length (Dr. GRPO)
    )


class RatioLevel(StrEnum):
    """The level of importance ratios."""

    TOKENWISE = "token"
    SEQUENCE = "sequence"  # GSPO
    WITHIN_SEQUENCE = "sequence_token"  # GSPO-token: the sequence's value, the token's gradient


class KlTo(StrEnum):
    """Where the KL penalty is applied."""

    LOSS = "loss"  # coefficient * estimate, beside the policy loss
    REWARD = "reward"  # coefficient * estimate, taken off each token's reward (PPO)


class KlPenalty(Request):
    """KL penalty to the initial model."""

    coefficient: Annotated[Number, Field(gt=0.0)] = Field(description="Weight of the penalty.")
    to: KlTo = Field(default=KlTo.LOSS, description="Place of the penalty: the loss or the reward.")
    estimator: KlEstimator | None = Field(
        default=None,
        description="Estimator of the divergence; null: k3 in the loss, k1 in the reward.",
    )

    @property
    def estimate(self) -> KlEstimator:
        """The estimator in use."""
        return self.estimator or (KlEstimator.K3 if self.to is KlTo.LOSS else KlEstimator.K1)

    @model_validator(mode="after")
    def _check_estimator(self) -> Self:
        if self.to is KlTo.REWARD and self.estimator is KlEstimator.UNBIASED:
            raise AtField("estimator", "the estimator unbiased has its gradient in the loss only")
        return self


class PolicyLoss(Renamed):
    """The clipped surrogate of PPO, GRPO, DAPO, Dr.GRPO and GSPO, or another objective."""

    retired_names: ClassVar = {"importance_cap": "tis_cap"}

    objective: Objective = Field(
        default=Objective.CLIP, description="Loss of a token, by its ratio and advantage."
    )
    extension: ExtensionName | None = Field(
        default=None,
        description="Name of an entry point in the group temper.objectives, for the objective "
        "extension.",
    )
    anchor: Anchor = Field(
        default=Anchor.OLD,
        description="Distribution that ratios are relative to; dppo_tv: sampler.",
    )
    clip_low: Annotated[Number, Field(gt=0.0, le=1.0)] = Field(
        default=0.2,
        description="Distance of the lower bound of the ratio below 1 (dppo_tv: of p below "
        "p_anchor); 1: no bound.",
    )
    clip_high: Annotated[Number, Field(gt=0.0)] = Field(
        default=0.28,
        description="Distance of the upper bound of the ratio above 1 (dppo_tv: of p above "
        "p_anchor).",
    )
    dual_clip: Annotated[Number, Field(gt=1.0)] | None = Field(
        default=None,
        description="Bound of dual clipping: with a negative advantage A the loss is at most -A "
        "times this.",
    )
    ratio: RatioLevel = Field(
        default=RatioLevel.TOKENWISE, description="Level of the importance ratios."
    )
    aggregation: Aggregation = Field(
        default=Aggregation.MEAN_OF_TOKENS,
        description="Aggregation of token losses into the loss of a batch.",
    )
    tis_cap: Annotated[Number, Field(gt=0.0)] | None = Field(
        default=2.0,
        description="Truncated importance sampling: cap of the weight p_trainer / p_sampler of "
        "each token; null: no correction. With sequence ratios the gradient of a sequence is "
        "multiplied by the mean of its tokens' weights.",
    )
    tis_level: Literal[RatioLevel.TOKENWISE, RatioLevel.SEQUENCE] = Field(
        default=RatioLevel.TOKENWISE,
        description="Level of the weight of truncated importance sampling. sequence: the weight "
        "of a token is that of its response, the capped product.",
    )
    token_mask: tuple[Ratio, Ratio] | None = Field(
        default=None,
        description="Bounds of p_old / p_sampler outside which tokens are left out (IcePop: 0.5 "
        "and 5); with the anchor sampler of p / p_sampler, at each optimizer step; null: none.",
    )
    sequence_mask: SequenceMask | None = Field(
        default=None,
        description="Bounds of a response's ratio outside which it is left out; null: none.",
    )
    off_policy_mask: Annotated[Number, Field(ge=0.0)] | None = Field(
        default=None,
        description="Mean of log p_sampler - log p above which a response with a negative "
        "advantage is left out (DeepSeek-V3.2); null: none.",
    )
    gate_temperatures: tuple[Annotated[Number, Field(gt=0.0)], Annotated[Number, Field(gt=0.0)]] = (
        Field(
            default=(1.0, 1.05),
            description="Temperatures of SAPO for positive and negative advantages.",
        )
    )
    covariance: Covariance = Field(
        default_factory=Covariance,
        description="Tokens that the objectives clip_cov and kl_cov treat apart.",
    )
    entropy_bonus: Annotated[Number, Field(ge=0.0)] = Field(
        default=0.0, description="Weight of the entropy, which is taken off the loss."
    )
    kl: KlPenalty | None = Field(
        default=None, description="Penalty for the divergence from the initial model; null: none."
    )

    @model_validator(mode="after")
    def _check_objective(self) -> Self:
        if self.objective is Objective.DPPO_TV and "anchor" not in self.model_fields_set:
            self.anchor = Anchor.SAMPLER
        if self.anchor is Anchor.SAMPLER and "tis_cap" not in self.model_fields_set:
            self.tis_cap = None
        if self.anchor is Anchor.SAMPLER and self.tis_cap is not None:
            raise AtField(
                "tis_cap", "ratios to the sampler correct for it already: tis_cap must be null"
            )
        reads_ratio = "ratio" in READ_FIELDS[self.objective]
        if self.ratio is not RatioLevel.TOKENWISE and not reads_ratio:
            raise AtField(
                "ratio", f"the objective {self.objective.value} has ratios of tokens only"
            )
        if self.objective is Objective.EXTENSION and self.extension is None:
            raise AtField("extension", "extension names the function of the objective extension")
        if self.token_mask is not None and self.token_mask[0] >= self.token_mask[1]:
            raise AtField("token_mask", "token_mask: the first bound must be below the second")
        return self

    @model_validator(mode="after")
    def _aggregate_sequence_ratios(self) -> Self:
        """GSPO's objective is a mean over sequences (Zheng et al. 2025, arXiv:2507.18071)."""
        if self.ratio is not RatioLevel.TOKENWISE:
            if "aggregation" not in self.model_fields_set:
                self.aggregation = Aggregation.MEAN_OF_SEQUENCE_MEANS
            if self.aggregation is not Aggregation.MEAN_OF_SEQUENCE_MEANS:
                wanted = Aggregation.MEAN_OF_SEQUENCE_MEANS.value
                raise AtField(
                    "aggregation", f"the ratio of a sequence (GSPO) requires aggregation {wanted}"
                )
        return self


class PpoLoss(PolicyLoss):
    """The loss of PPO, whose clipping is symmetric (Schulman et al. 2017, arXiv:1707.06347)."""

    clip_high: Annotated[Number, Field(gt=0.0)] = Field(
        default=0.2,
        description="Distance of the upper bound of the ratio above 1 (dppo_tv: of p above "
        "p_anchor).",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_other_methods(cls, value: Any) -> Any:
        """Take what was given of a `PolicyLoss`; the rest has the defaults of PPO."""
        is_other = isinstance(value, PolicyLoss) and not isinstance(value, cls)
        return given_fields(value) if is_other else value
