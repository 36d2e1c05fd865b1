"""The memory estimate against numbers computed by hand, for the shape of an 8B model.

8,030,261,248 weights; LoRA of rank 16 on all linear layers trains 41,943,040. One micro-batch of
8 rows of 2,048 tokens: 16,384 x 4,096 x 32 x 8 x 1.2 bytes of activations.
"""

from typing import Any

import pytest

from services.contracts.fine_tuning import MemoryEstimate
from services.contracts.offline import OfflineHyperparameters, SupervisedHyperparameters
from services.contracts.preference_optimization import DpoHyperparameters
from services.core.model_shape import ModelShape, model_shape
from services.core.training_memory import estimate, load_of
from tests.unit.core.test_model_shape import LLAMA_3_8B

ACTIVATIONS = 20.616
CHECKPOINTED = 7.216


@pytest.fixture(scope="module")
def shape() -> ModelShape:
    found = model_shape(LLAMA_3_8B)
    assert found is not None
    return found


def estimated(
    shape: ModelShape, settings: OfflineHyperparameters, devices: int = 1, card: int | None = None
) -> MemoryEstimate:
    return estimate(shape, load_of(shape, settings, devices), card)


@pytest.mark.parametrize(
    ("settings", "trained", "base"),
    [
        ({"training_type": "full"}, 8_030_261_248, 144.545),
        ({"training_type": "lora"}, 41_943_040, 16.815),
        ({"training_type": "lora", "llamafactory": {"quantization_bit": 4}}, 41_943_040, 4.770),
        ({"training_type": "lora", "llamafactory": {"quantization_bit": 8}}, 41_943_040, 8.785),
        # q_proj: 16 x (4,096 + 4,096), v_proj: 16 x (4,096 + 1,024), in 32 layers
        ({"lora": {"target_modules": ["q_proj", "v_proj"]}}, 6_815_744, 16.183),
        ({"training_type": "freeze"}, 436_224_256, 23.913),
    ],
)
def test_weights_and_optimizer_states_are_counted_by_how_they_are_kept(
    shape: ModelShape, settings: dict[str, Any], trained: int, base: float
) -> None:
    found = estimated(shape, SupervisedHyperparameters.model_validate(settings))

    assert found.parameters == 8_030_261_248
    assert found.trained_parameters == trained
    assert found.base_gb == pytest.approx(base, abs=0.001)
    assert found.needed_gb == pytest.approx(1.2 * base + CHECKPOINTED, abs=0.005)


@pytest.mark.parametrize(
    ("settings", "activations"),
    [
        ({}, CHECKPOINTED),
        ({"llamafactory": {"disable_gradient_checkpointing": True}}, ACTIVATIONS),
        ({"batch_size": 2}, CHECKPOINTED / 4),
        ({"max_seq_length": 8192}, CHECKPOINTED),  # two rows
        ({"llamafactory": {"cutoff_len": 32_768}}, 2 * CHECKPOINTED),  # one row is always taken
        ({"llamafactory": {"per_device_train_batch_size": 1}}, CHECKPOINTED / 8),
    ],
)
def test_activations_grow_with_the_tokens_of_a_micro_batch(
    shape: ModelShape, settings: dict[str, Any], activations: float
) -> None:
    found = estimated(shape, SupervisedHyperparameters.model_validate(settings))

    assert found.activations_gb == pytest.approx(activations, abs=0.002)


@pytest.mark.parametrize(
    ("training_type", "sharding", "base"),
    [
        ("full", "zero2", 8.030261248 * (2 + 16 / 4)),
        ("full", "zero2_offload", 8.030261248 * 2),
        ("full", "zero3", 8.030261248 * 18 / 4),
        ("full", "fsdp", 8.030261248 * 18 / 4),
        ("full", "fsdp_offload", 8.030261248 * 2 / 4),
        ("lora", "zero2", 8.030261248 * 2 + 0.04194304 * (2 + 16 / 4)),
        ("lora", "zero3", 8.030261248 * 2 / 4 + 0.04194304 * 18 / 4),
    ],
)
def test_sharding_splits_what_each_gpu_holds(
    shape: ModelShape, training_type: str, sharding: str, base: float
) -> None:
    given = {"training_type": training_type, "sharding": sharding}

    found = estimated(shape, SupervisedHyperparameters.model_validate(given), devices=4)

    assert found.base_gb == pytest.approx(base, abs=0.001)


def test_the_memory_of_several_gpus_does_not_add_up(shape: ModelShape) -> None:
    settings = SupervisedHyperparameters.model_validate({"training_type": "full"})

    assert estimated(shape, settings, devices=8).base_gb == estimated(shape, settings).base_gb


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        ({"training_type": "full"}, 160.605),  # and a frozen copy
        ({"training_type": "full", "loss": "orpo"}, 144.545),
        ({"training_type": "lora"}, 16.815),  # the base with its adapter off
        ({"training_type": "lora", "reference_model": "other"}, 32.876),
    ],
)
def test_a_reference_model_of_its_own_counts(
    shape: ModelShape, settings: dict[str, Any], base: float
) -> None:
    found = estimated(shape, DpoHyperparameters.model_validate(settings))

    assert found.base_gb == pytest.approx(base, abs=0.001)


@pytest.mark.parametrize(("gigabytes", "fits"), [(30.4, False), (30.5, True)])
def test_nine_tenths_of_a_card_may_be_filled(
    shape: ModelShape, gigabytes: float, fits: bool
) -> None:
    """27.394 GB are needed."""
    found = estimated(shape, SupervisedHyperparameters(), card=int(gigabytes * 1e9))

    assert (found.card_gb, found.fits) == (gigabytes, fits)
