"""Sharding by name: conflicts, and LLaMA-Factory arguments."""

from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.training.offline import (
    OfflineHyperparameters,
    PretrainingHyperparameters,
    RewardModelHyperparameters,
    SupervisedHyperparameters,
)
from services.contracts.training.placement import Sharding
from services.contracts.training.preference_optimization import (
    DpoHyperparameters,
    KtoHyperparameters,
)
from services.trainer.offline.arguments import sharding_arguments

METHODS = [
    SupervisedHyperparameters,
    DpoHyperparameters,
    KtoHyperparameters,
    RewardModelHyperparameters,
    PretrainingHyperparameters,
]


def check(
    method: type[OfflineHyperparameters], *, has_validation: bool = False, **fields: Any
) -> None:
    method.model_validate(fields).check_library_arguments(has_validation=has_validation)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sharding", Sharding)
def test_every_method_takes_every_sharding_but_a_value_head_has_no_fsdp(
    method: type[OfflineHyperparameters], sharding: Sharding
) -> None:
    if method is RewardModelHyperparameters and not sharding.is_zero:
        with pytest.raises(InvalidRequest, match="use zero2 or zero3"):
            check(method, sharding=sharding)
    else:
        check(method, sharding=sharding)


@pytest.mark.parametrize("sharding", ["zero3", "zero3_offload", "fsdp", "fsdp_offload"])
@pytest.mark.parametrize("argument", [{"quantization_bit": 4}, {"pissa_init": True}])
def test_features_that_need_whole_weights_are_refused_with_sharded_ones(
    sharding: str, argument: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match=f"{sharding} cannot be used with") as refused:
        check(SupervisedHyperparameters, sharding=sharding, llamafactory=argument)
    assert refused.value.param == "sharding"

    check(SupervisedHyperparameters, sharding="zero2", llamafactory=argument)


def test_generation_needs_whole_weights() -> None:
    with pytest.raises(InvalidRequest, match="answers cannot be generated under zero3"):
        check(SupervisedHyperparameters, has_validation=True, sharding="zero3", generation={})


def test_arguments_for_the_librarys_own_fsdp_are_refused() -> None:
    arguments = {"fsdp": "full_shard"}

    with pytest.raises(InvalidRequest, match="zero2 cannot be used with fsdp"):
        check(SupervisedHyperparameters, sharding="zero2", llamafactory=arguments)


@pytest.mark.parametrize(
    ("sharding", "stage", "offloaded"),
    [
        (Sharding.ZERO_2, 2, set()),
        (Sharding.ZERO_2_OFFLOAD, 2, {"offload_optimizer"}),
        (Sharding.ZERO_3, 3, set()),
        (Sharding.ZERO_3_OFFLOAD, 3, {"offload_optimizer", "offload_param"}),
    ],
)
def test_zero_is_a_configuration_of_deepspeed(
    sharding: Sharding, stage: int, offloaded: set[str]
) -> None:
    zero = sharding_arguments(sharding)["deepspeed"]["zero_optimization"]

    assert zero["stage"] == stage
    assert {name for name in zero if name.startswith("offload")} == offloaded


def test_fsdp_saves_whole_weights() -> None:
    arguments = sharding_arguments(Sharding.FSDP_OFFLOAD)

    assert "offload" in arguments["fsdp"].split()
    assert arguments["fsdp_config"]["state_dict_type"] == "FULL_STATE_DICT"
