"""Settings of the loss of online training: what goes together, and what has an effect."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from services.contracts.errors import InvalidRequest
from services.contracts.training.effects import check_effects
from services.contracts.training.fine_tuning import Method
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


def given(loss: dict[str, Any], method: str = "reinforcement", **settings: Any) -> Method:
    """A method with a loss, as it is read from a new request and from a stored one."""
    rewards = [{"name": "found", "reward": {"type": "search_em"}}]
    body = {"rewards": rewards, "hyperparameters": {"loss": loss, **settings}}
    return Method.model_validate({"type": method, method: body})


def check(method: Method) -> None:
    """What a new request is asked beyond what a stored one is."""
    assert method.online is not None
    check_effects(method.online)


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

    method = given(body)
    assert given(PolicyLoss.model_validate(body).model_dump(mode="json")) == method
    if not readers or objective in readers:
        check(method)
    else:
        with pytest.raises(InvalidRequest, match="has no effect with the objective") as refused:
            check(method)
        assert refused.value.param == f"hyperparameters.loss.{path}"


STORED: Mapping[str, Any] = {
    **{"objective": "clip", "extension": None, "anchor": "old", "ratio": "token"},
    **{"clip_low": 0.2, "clip_high": 0.28, "dual_clip": None, "aggregation": "token-mean"},
    **{"tis_cap": 2.0, "tis_level": "token", "token_mask": None, "sequence_mask": None},
    **{"off_policy_mask": None, "gate_temperatures": [1.0, 1.05], "entropy_bonus": 0.0},
    **{"covariance": {"share": 0.0002, "low": 1.0, "high": 5.0, "kl": 1.0}, "kl": None},
}
"""A loss as version 0.1.0 stored it, with every field."""


@pytest.mark.parametrize(
    ("method", "loss", "settings"),
    [
        ("ppo", {"objective": "kl_cov"}, {}),
        ("reinforcement", {"objective": "sapo", "clip_high": 0.2, "tis_cap": None}, {}),
        ("reinforcement", {"tis_cap": None, "tis_level": "sequence"}, {}),
        ("reinforcement", {}, {"advantage": "max_rl", "overlong": {"buffer": 8}}),
        ("reinforcement", {}, {"optimizer": {"training_type": "full", "lora": {"rank": 4}}}),
    ],
)
def test_what_an_earlier_version_accepted_remains_readable(
    method: str, loss: dict[str, Any], settings: dict[str, Any]
) -> None:
    stored = given({**STORED, **loss}, method, **settings)

    assert stored.online is not None
    again = Method.model_validate(stored.model_dump(mode="json"))
    assert again == stored
    with pytest.raises(InvalidRequest):  # a new one is refused
        check(stored)


@pytest.mark.parametrize("objective", [Objective.CLIP, Objective.CISPO, Objective.CLIP_COV])
def test_a_shown_loss_can_be_sent_again_with_its_nulls_or_without(objective: Objective) -> None:
    shown = PolicyLoss(objective=objective)

    for without in (False, True):
        check(given(shown.model_dump(mode="json", exclude_none=without)))


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
        ({"objective": "extension"}, "extension names the function"),
        ({"objective": "cispo", "ratio": "sequence"}, "cispo has ratios of tokens only"),
        ({"token_mask": [5.0, 0.5]}, "the first bound must be below"),
        ({"sequence_mask": {"low": 2.0}}, "low must be below high"),
        (
            {"kl": {"coefficient": 0.1, "to": "reward", "estimator": "unbiased"}},
            "its gradient in the loss only",
        ),
    ],
)
def test_objectives_that_do_not_go_together_are_refused(loss: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ReinforcementHyperparameters.model_validate({"loss": loss})


@pytest.mark.parametrize(
    "loss", [{"tis_cap": None}, {"anchor": "sampler"}, {"objective": "dppo_tv"}]
)
def test_a_level_of_no_correction_is_refused(loss: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="tis_level has no effect where tis_cap is null"):
        check(given({"tis_level": "sequence", **loss}))


@pytest.mark.parametrize("settings", [{"recipe": "rloo"}, {"recipe": "grpo"}, {}])
def test_what_is_not_trained_on_has_no_penalty_in_its_reward(settings: dict[str, Any]) -> None:
    kl = {"kl": {"coefficient": 0.1, "to": "reward"}}
    masked = given(kl, mask_truncated=True, **settings)  # as a stored request has it

    with pytest.raises(InvalidRequest, match=r"loss\.kl\.to must be loss") as refused:
        check(masked)
    assert refused.value.param == "hyperparameters.mask_truncated"
    check(given(kl, **settings))
    check(given({"kl": {"coefficient": 0.1, "to": "loss"}}, mask_truncated=True, **settings))


@pytest.mark.parametrize(("prioritized", "replay"), [(1.0, 0.0), (0.0, 1.0), (0.9, 0.1)])
def test_a_curriculum_leaves_draws_to_prompts_that_were_not_seen(
    prioritized: float, replay: float
) -> None:
    asked = given({}, curriculum={"prioritized": prioritized, "replay": replay})

    with pytest.raises(InvalidRequest, match="not seen: less than 1 together") as refused:
        check(asked)
    assert refused.value.param == "hyperparameters.curriculum"
    check(given({}, curriculum={"prioritized": prioritized / 2, "replay": replay / 2}))
