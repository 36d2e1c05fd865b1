"""Settings of the loss of online training: what goes together, and what has an effect."""

from typing import Any

import pytest
from pydantic import ValidationError

from services.contracts.training.objectives import READ_FIELDS, Objective
from services.contracts.training.online import PpoHyperparameters, ReinforcementHyperparameters
from services.contracts.training.policy_loss import PolicyLoss

CHANGED: dict[str, Any] = {
    "anchor": "sampler",
    "clip_low": 0.1,
    "clip_high": 0.5,
    "dual_clip": 3.0,
    "aggregation": "seq-mean-token-mean",
    "tis_cap": None,
    "tis_level": "sequence",
    "token_mask": (0.5, 5.0),
    "sequence_mask": {"ratio": "product"},
    "off_policy_mask": 0.1,
    "gate_temperatures": (2.0, 3.0),
    "covariance.share": 0.5,
    "covariance.low": 0.5,
    "covariance.high": 9.0,
    "covariance.kl": 0.1,
    "extension": "own",
    "entropy_bonus": 0.01,
    "kl": {"coefficient": 0.1},
}
"""A value that is not the default of each field, but for the objective and its ratio."""


def nested(path: str, value: Any) -> dict[str, Any]:
    """A body with a value at a dotted path."""
    name, _, rest = path.partition(".")
    return {name: nested(rest, value) if rest else value}


def test_every_field_of_the_loss_is_walked() -> None:
    known = {path.partition(".")[0] for path in CHANGED}
    assert known == set(PolicyLoss.model_fields) - {"objective", "ratio"}


@pytest.mark.parametrize("path", CHANGED)
@pytest.mark.parametrize("objective", Objective)
def test_a_field_is_refused_by_name_where_it_has_no_effect(objective: Objective, path: str) -> None:
    body: dict[str, Any] = {"objective": objective, "anchor": "old", "tis_cap": 2.0}
    body |= {"extension": "own"} if objective is Objective.EXTENSION else {}
    body |= nested(path, CHANGED[path])
    body |= {"tis_cap": None} if path == "anchor" else {}
    readers = [each for each, read in READ_FIELDS.items() if path in read]

    if not readers or objective in readers:
        loss = PolicyLoss.model_validate(body)
        assert PolicyLoss.model_validate(loss.model_dump(mode="json")) == loss
    else:
        with pytest.raises(ValidationError, match=f"{path} has no effect with the objective"):
            PolicyLoss.model_validate(body)


@pytest.mark.parametrize("objective", [Objective.SAPO, Objective.KL_COV, Objective.DPPO_TV])
def test_a_default_without_effect_is_refused_where_it_is_given_and_read_where_it_is_stored(
    objective: Objective,
) -> None:
    stored = PolicyLoss(objective=objective).model_dump(mode="json")
    assert PolicyLoss.model_validate(stored) == PolicyLoss(objective=objective)

    path = "clip_high" if objective is not Objective.DPPO_TV else "gate_temperatures"
    with pytest.raises(ValidationError, match=f"{path} has no effect"):
        PolicyLoss.model_validate({"objective": objective, path: stored[path]})
    with pytest.raises(ValidationError, match=r"covariance\.low has no effect"):
        PolicyLoss.model_validate({"objective": objective, "covariance": {"low": 1.0}})


@pytest.mark.parametrize(
    "loss", [{"entropy_bonus": 0.01}, {"clip_low": 0.1}, PolicyLoss(entropy_bonus=0.01), {}]
)
def test_ppo_keeps_its_clip_where_a_part_of_its_loss_is_given(loss: Any) -> None:
    assert PpoHyperparameters(loss=loss).loss.clip_high == 0.2
    assert ReinforcementHyperparameters(loss=loss).loss.clip_high == 0.28


def test_sequence_ratios_are_averaged_over_sequences() -> None:
    given = ReinforcementHyperparameters.model_validate({"loss": {"ratio": "sequence"}})
    assert given.loss.aggregation == "seq-mean-token-mean"
    again = ReinforcementHyperparameters.model_validate(given.model_dump(mode="json"))
    assert again == given
    loss = {"ratio": "sequence", "aggregation": "token-mean"}
    with pytest.raises(ValidationError, match="requires aggregation seq-mean-token-mean"):
        ReinforcementHyperparameters.model_validate({"loss": loss})


def test_ratios_to_the_sampler_need_no_further_correction() -> None:
    given = ReinforcementHyperparameters.model_validate({"loss": {"objective": "dppo_tv"}})
    assert (given.loss.anchor, given.loss.tis_cap) == ("sampler", None)
    again = ReinforcementHyperparameters.model_validate(given.model_dump(mode="json"))
    assert again == given
    product = {"ratio": "product"}
    masked = ReinforcementHyperparameters.model_validate({"loss": {"sequence_mask": product}})
    assert masked.loss.sequence_mask is not None
    assert (masked.loss.sequence_mask.low, masked.loss.sequence_mask.high) == (0.5, 2.0)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"anchor": "sampler", "tis_cap": 2.0}, "tis_cap must be null"),
        ({"covariance": {"share": 0.1}}, "covariance.share has no effect with the objective clip"),
        (
            {"objective": "kl_cov", "dual_clip": 3.0},
            "dual_clip has no effect with",
        ),
        ({"objective": "extension"}, "extension names the function"),
        ({"extension": "own"}, "extension has no effect with the objective clip"),
        ({"objective": "cispo", "ratio": "sequence"}, "cispo has ratios of tokens only"),
        ({"objective": "sapo", "dual_clip": 3.0}, "dual_clip has no effect with"),
        ({"token_mask": [5.0, 0.5]}, "the first bound must be below"),
        ({"sequence_mask": {"low": 2.0}}, "low must be below high"),
        ({"tis_level": "sequence", "tis_cap": None}, "tis_level has no effect where tis_cap"),
        ({"tis_level": "sequence", "anchor": "sampler"}, "tis_level has no effect where tis_cap"),
        ({"tis_level": "sequence", "objective": "dppo_tv"}, "tis_level has no effect where"),
        (
            {"kl": {"coefficient": 0.1, "to": "reward", "estimator": "unbiased"}},
            "its gradient in the loss only",
        ),
    ],
)
def test_objectives_that_do_not_go_together_are_refused(loss: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ReinforcementHyperparameters.model_validate({"loss": loss})
