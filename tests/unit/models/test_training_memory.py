"""The memory estimate against numbers computed by hand, for the shape of an 8B model.

8,030,261,248 weights, 6,979,321,856 of them in linear layers; LoRA of rank 8 on all of these
trains 20,971,520. One micro-batch of 8 rows of 2,048 tokens, of which each takes in a layer, whose
input has 8,192 bytes,

    2 x 8 x 4,096 (norms) + 2 x (3 x 4,096 + 2 x 1,024) (attention) + 8 x 14,336 (feed-forward)

= 208,896 bytes; and 2**26 x 12 for the logits that are held at a time, or where that is more
2 x (2 x 14,336 + 2 x 4,096) = 73,728 of each token for the gradients of a layer.
"""

from typing import Any

import pytest

from services.contracts.training.fine_tuning import MemoryEstimate
from services.contracts.training.offline import (
    OfflineHyperparameters,
    RewardModelHyperparameters,
    SupervisedHyperparameters,
)
from services.contracts.training.preference_optimization import DpoHyperparameters
from services.models.capacity.remedies import ROWS, offline_remedy
from services.models.capacity.shape import ModelShape, model_shape
from services.models.capacity.training import estimate, load_of
from tests.unit.models.test_shape import LLAMA_3_8B, QWEN_2_5_7B

WEIGHTS = 8.030261248
LINEAR = 6.979321856
ADAPTER = 0.02097152
TOKENS = 16_384
ACTIVATIONS = TOKENS * (32 * 208_896 + 73_728) / 1e9
CHECKPOINTED = TOKENS * (32 * 8192 + 208_896 + 73_728) / 1e9
WHOLE = 4096 * (32 * 8192 + 128_256 * 12) / 1e9


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
        ({"training_type": "lora"}, 20_971_520, 16.438),
        ({"training_type": "lora", "llamafactory": {"quantization_bit": 4}}, 20_971_520, 6.109),
        ({"training_type": "lora", "llamafactory": {"quantization_bit": 8}}, 20_971_520, 9.459),
        # q_proj: 8 x (4,096 + 4,096), v_proj: 8 x (4,096 + 1,024), in 32 layers
        ({"lora": {"target_modules": ["q_proj", "v_proj"]}}, 3_407_872, 16.122),
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
    assert found.needed_gb == pytest.approx(1.05 * base + CHECKPOINTED, abs=0.005)


@pytest.mark.parametrize(
    ("settings", "activations"),
    [
        ({}, CHECKPOINTED),
        ({"llamafactory": {"disable_gradient_checkpointing": True}}, ACTIVATIONS),
        ({"batch_size": 4}, CHECKPOINTED / 2),
        ({"max_seq_length": 1024}, CHECKPOINTED),  # sixteen rows
        ({"llamafactory": {"cutoff_len": 32_768}}, 2 * CHECKPOINTED),  # one row is always taken
        ({"llamafactory": {"per_device_train_batch_size": 16}}, 2 * CHECKPOINTED),
        ({"llamafactory": {"use_dft_loss": True}}, WHOLE),  # two rows
    ],
)
def test_activations_grow_with_the_tokens_of_a_micro_batch(
    shape: ModelShape, settings: dict[str, Any], activations: float
) -> None:
    found = estimated(shape, SupervisedHyperparameters.model_validate(settings))

    assert found.activations_gb == pytest.approx(activations, abs=0.002)


@pytest.mark.parametrize(
    ("arguments", "per_weight"),
    [
        ({"optim": "adamw_torch"}, 18),
        ({"optim": "paged_adamw_32bit"}, 18),
        ({"optim": "adamw_8bit"}, 12),
        ({"optim": "paged_adamw_8bit"}, 12),
        ({"optim": "lion_8bit"}, 11),
        ({"optim": "adafactor"}, 10.1),
        ({"optim": "sgd"}, 10),
        ({"pure_bf16": True}, 8),
        ({"pure_bf16": True, "optim": "adamw_8bit"}, 6),
        ({"pure_bf16": True, "optim": "sgd"}, 4),
    ],
)
def test_an_optimizer_counts_by_its_states_and_the_precision_of_the_weights(
    shape: ModelShape, arguments: dict[str, Any], per_weight: float
) -> None:
    given = {"training_type": "full", "llamafactory": arguments}

    found = estimated(shape, SupervisedHyperparameters.model_validate(given))

    assert found.base_gb == pytest.approx(per_weight * WEIGHTS, abs=0.001)


def test_all_of_a_7b_model_trains_in_pure_bfloat16_on_one_card_of_80_gigabytes() -> None:
    shape = model_shape(QWEN_2_5_7B)
    assert shape is not None
    card = 81_559 * 2**20  # as an H100 of 80 GB reports it

    def request(**arguments: Any) -> SupervisedHyperparameters:
        given = {"training_type": "full", "llamafactory": arguments}
        return SupervisedHyperparameters.model_validate(given)

    def fits(card: int, **arguments: Any) -> bool | None:
        return estimated(shape, request(**arguments), card=card).fits

    assert shape.parameters == pytest.approx(7.6e9, rel=0.01)
    assert fits(card, pure_bf16=True) is True
    assert fits(card) is False
    assert fits(card, pure_bf16=True, per_device_train_batch_size=16) is False
    least = 80 * 10**9
    assert fits(least, pure_bf16=True, per_device_train_batch_size=4) is True
    assert offline_remedy(shape, request(pure_bf16=True), 1, least) == f"{ROWS}: 4"


@pytest.mark.parametrize(
    ("given", "card", "remedy"),
    [
        ({"llamafactory": {"per_device_train_batch_size": 8}}, 27, f"{ROWS}: 4"),
        ({"llamafactory": {"disable_gradient_checkpointing": True}}, 48, "disable_gradient_c"),
        ({"training_type": "full"}, 80, f"{ROWS}: 1 and sharding: zero2_offload"),
        ({"training_type": "full", "llamafactory": {"pure_bf16": True}}, 64, "optim: adamw_8bit"),
        ({}, 14, f"{ROWS}: 1 and quantization_bit: 4"),
        ({"max_seq_length": 131_072}, 24, "quantization_bit: 4 and max_seq_length: 16384"),
        ({"llamafactory": {"cutoff_len": 131_072}}, 24, "bit: 4 and cutoff_len: 16384"),
        ({}, 4, None),
    ],
)
def test_the_nearest_setting_that_fits_is_named(
    shape: ModelShape, given: dict[str, Any], card: int, remedy: str | None
) -> None:
    settings = SupervisedHyperparameters.model_validate(given)
    bytes_of_card = card * 10**9
    assert estimated(shape, settings, card=bytes_of_card).fits is False

    found = offline_remedy(shape, settings, 1, bytes_of_card)

    assert (found is None) is (remedy is None)
    assert (remedy or "") in (found or "")


@pytest.mark.parametrize(
    ("training_type", "sharding", "base"),
    [
        ("full", "zero2", 8.030261248 * (2 + 16 / 4)),
        ("full", "zero2_offload", 8.030261248 * 2),
        ("full", "zero3", 8.030261248 * 18 / 4),
        ("full", "fsdp", 8.030261248 * 18 / 4),
        ("full", "fsdp_offload", 8.030261248 * 2 / 4),
        ("lora", "zero2", 8.030261248 * 2 + 0.02097152 * (2 + 16 / 4)),
        ("lora", "zero3", 8.030261248 * 2 / 4 + 0.02097152 * 18 / 4),
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
        ({"training_type": "lora"}, 16.438),  # the base with its adapter off
        ({"training_type": "lora", "reference_model": "other"}, 32.499),
    ],
)
def test_a_reference_model_of_its_own_counts(
    shape: ModelShape, settings: dict[str, Any], base: float
) -> None:
    found = estimated(shape, DpoHyperparameters.model_validate(settings))

    assert found.base_gb == pytest.approx(base, abs=0.001)


def test_a_reward_model_has_no_logits(shape: ModelShape) -> None:
    arguments = {"per_device_train_batch_size": 1, "disable_gradient_checkpointing": True}
    settings = RewardModelHyperparameters.model_validate({"llamafactory": arguments})

    found = estimated(shape, settings)

    assert found.activations_gb == pytest.approx(ACTIVATIONS / 4, abs=0.001)


def test_a_reward_model_does_not_train_its_output_layer(shape: ModelShape) -> None:
    head = 128_256 * 4096 / 1e9

    def base(**arguments: bool) -> float:
        given = {"training_type": "full", "llamafactory": arguments}
        return estimated(shape, RewardModelHyperparameters.model_validate(given)).base_gb

    assert base() == pytest.approx(18 * (WEIGHTS - head) + 4 * head, abs=0.001)
    assert base(pure_bf16=True) == pytest.approx(8 * (WEIGHTS - head) + 2 * head, abs=0.001)


@pytest.mark.parametrize(("gigabytes", "fits"), [(29.0, False), (29.1, True)])
def test_nine_tenths_of_a_card_may_be_filled(
    shape: ModelShape, gigabytes: float, fits: bool
) -> None:
    """26.185 GB are needed."""
    found = estimated(shape, SupervisedHyperparameters(), card=int(gigabytes * 1e9))

    assert (found.card_gb, found.fits) == (gigabytes, fits)
