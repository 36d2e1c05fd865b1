"""What the learner of online training needs, against numbers computed by hand for an 8B model.

8,030,261,248 weights; LoRA of rank 16 trains 41,943,040. A token has 208,896 bytes of activations
in each of 32 layers, whose inputs are 8,192 bytes, and the logits read at once take 2**26 x 16
bytes: 2.147 GB.
"""

from typing import Any

import pytest
from pydantic import TypeAdapter

from services.contracts.training.online import DistillationMethod, PpoMethod, ReinforcementMethod
from services.models.capacity.online import (
    LearnerLoad,
    MicroBatching,
    Online,
    choose_micro_batching,
    estimate_learner,
    learner_load,
    learner_share,
    longest_sequence,
)
from services.models.capacity.remedies import online_remedy
from services.models.capacity.shape import ModelShape, model_shape
from tests.unit.models.test_shape import LLAMA_3_8B, QWEN_2_5_HALF_B

WEIGHTS = 8.030261248
LORA = 16.815
LOGITS = 1.074
GRADIENTS = 1.208
"""Of one layer, with 16,384 tokens."""
GB = 10**9
KL = {"kl": {"coefficient": 0.1}}
SHORT = {"max_prompt_length": 1024, "sampling": {"max_tokens": 1024}}

METHODS: dict[str, TypeAdapter[Any]] = {
    "reinforcement": TypeAdapter(ReinforcementMethod),
    "ppo": TypeAdapter(PpoMethod),
    "distillation": TypeAdapter(DistillationMethod),
}


@pytest.fixture(scope="module")
def shape() -> ModelShape:
    found = model_shape(LLAMA_3_8B)
    assert found is not None
    return found


def online(method: str, optimizer: dict[str, Any], **settings: Any) -> Online:
    adapted = {"lora": {"rank": 16}} | optimizer
    content: dict[str, Any] = {"hyperparameters": SHORT | {"optimizer": adapted} | settings}
    if method == "distillation":
        content["hyperparameters"]["teacher"] = {"type": "model", "model": "teacher"}
    else:
        content["rewards"] = [{"name": "rule", "reward": {"type": "retool"}}]
    made: Online = METHODS[method].validate_python(content)
    return made


def load(shape: ModelShape, optimizer: dict[str, Any], **settings: Any) -> LearnerLoad:
    return learner_load(shape, online("reinforcement", optimizer, **settings), devices=1)


@pytest.mark.parametrize(
    ("optimizer", "devices", "base"),
    [
        ({}, 1, 18 * WEIGHTS),
        ({"offload": True}, 1, 10 * WEIGHTS),
        ({}, 4, 22 * WEIGHTS),  # DDP's buckets
        ({"strategy": "fsdp"}, 4, 18 / 4 * WEIGHTS),
        ({"strategy": "deepspeed"}, 4, (2 + 16 / 4) * WEIGHTS),
        ({"strategy": "deepspeed", "zero_stage": 1}, 4, (4 + 14 / 4) * WEIGHTS),
        ({"strategy": "deepspeed", "zero_stage": 3}, 4, 18 / 4 * WEIGHTS),
        ({"strategy": "deepspeed", "offload": True}, 4, (2 + 2 / 4) * WEIGHTS),
        ({"training_type": "lora"}, 1, LORA),
    ],
)
def test_weights_and_optimizer_are_counted_by_where_they_are_held(
    shape: ModelShape, optimizer: dict[str, Any], devices: int, base: float
) -> None:
    held = learner_load(shape, online("reinforcement", optimizer), devices=devices)

    found = held.estimate(MicroBatching(4096, checkpointing=False), None, 0.9)

    assert found.base_gb == pytest.approx(base, abs=0.001)


@pytest.mark.parametrize(
    ("method", "optimizer", "settings", "base"),
    [
        ("reinforcement", {}, {"loss": KL}, 20 * WEIGHTS),
        ("reinforcement", {"training_type": "lora"}, {"loss": KL}, LORA),  # with the adapter off
        ("ppo", {}, {}, 36 * WEIGHTS),
        ("ppo", {}, {"critic": {"kind": "shared"}}, 18 * WEIGHTS),
        ("ppo", {"training_type": "lora"}, {}, 2 * LORA),
        ("distillation", {}, {}, 18 * WEIGHTS + 2 * 0.494005),
    ],
)
def test_critics_references_and_teachers_count(
    shape: ModelShape,
    method: str,
    optimizer: dict[str, Any],
    settings: dict[str, Any],
    base: float,
) -> None:
    teacher = model_shape(QWEN_2_5_HALF_B) if method == "distillation" else None
    asked = online(method, optimizer, **settings)

    held = learner_load(shape, asked, devices=1, teacher=teacher)

    found = held.estimate(MicroBatching(4096, checkpointing=False), None, 0.9)
    assert found.base_gb == pytest.approx(base, abs=0.001)


def test_an_adapter_that_is_continued_has_a_reference_of_its_own(shape: ModelShape) -> None:
    asked = online("reinforcement", {"training_type": "lora"}, loss=KL)

    held = learner_load(shape, asked, devices=1, continues_adapter=True)

    found = held.estimate(MicroBatching(4096, checkpointing=False), None, 0.9)
    assert found.base_gb == pytest.approx(LORA + 2 * WEIGHTS, abs=0.001)


@pytest.mark.parametrize(
    ("batching", "activations"),
    [
        (MicroBatching(16_384, checkpointing=False), 109.522 + GRADIENTS),
        (
            MicroBatching(16_384, checkpointing=True),
            4.295 + 3.423 + GRADIENTS,
        ),  # a layer takes more than these
        (MicroBatching(4096, checkpointing=False), 27.380 + LOGITS),
        (MicroBatching(4096, checkpointing=True), 1.074 + 0.856 + GRADIENTS / 4),
        (MicroBatching(512, checkpointing=False), 13.690 + LOGITS),  # a sequence of 2,048 tokens
    ],
)
def test_activations_grow_with_micro_batches_and_cover_the_longest_sequence(
    shape: ModelShape, batching: MicroBatching, activations: float
) -> None:
    found = load(shape, {}).estimate(batching, None, 0.9)

    assert found.activations_gb == pytest.approx(activations, abs=0.002)


@pytest.mark.parametrize(
    ("card", "optimizer", "batching"),
    [
        (146, {}, MicroBatching(16_384, checkpointing=False)),
        (144, {}, MicroBatching(8192, checkpointing=False)),
        (81, {}, MicroBatching(4096, checkpointing=False)),
        (51, {}, MicroBatching(16_384, checkpointing=True)),
        (28, {}, MicroBatching(8192, checkpointing=True)),
        (25, {}, MicroBatching(4096, checkpointing=True)),
        (24, {}, MicroBatching(2048, checkpointing=True)),
        (10, {}, MicroBatching(2048, checkpointing=True)),  # nothing fits: the smallest
        (40, {"gradient_checkpointing": False}, MicroBatching(2048, checkpointing=False)),
        (144, {"gradient_checkpointing": True}, MicroBatching(16_384, checkpointing=True)),
        (142, {"micro_batch_tokens": 16_384}, MicroBatching(16_384, checkpointing=True)),
        (10, {"micro_batch_tokens": 512}, MicroBatching(512, checkpointing=True)),
    ],
)
def test_micro_batches_and_checkpointing_are_chosen_from_the_memory_of_the_card(
    shape: ModelShape, card: int, optimizer: dict[str, Any], batching: MicroBatching
) -> None:
    """17.656 GB are held; with 16,384 tokens 130.35 GB are needed, with 8,192 75.59 GB, with 4,096
    48.21 GB; recomputing activations 26.58, 22.98, 21.91 and, with 2,048, 21.37 GB."""
    held = load(shape, {"training_type": "lora"} | optimizer)
    settings = online("reinforcement", optimizer).hyperparameters.optimizer

    assert choose_micro_batching(held, settings, card * GB, usable=0.9) == batching


def test_what_the_settings_name_is_never_changed(shape: ModelShape) -> None:
    optimizer = {"micro_batch_tokens": 32_768, "gradient_checkpointing": False}
    settings = online("reinforcement", optimizer).hyperparameters.optimizer

    chosen = choose_micro_batching(load(shape, optimizer), settings, GB, usable=0.9)

    assert chosen == MicroBatching(32_768, checkpointing=False)


def test_without_a_gpu_or_a_known_model_nothing_is_estimated(shape: ModelShape) -> None:
    settings = online("reinforcement", {}).hyperparameters.optimizer
    usual = MicroBatching(16_384, checkpointing=False)

    assert choose_micro_batching(load(shape, {}), settings, None, usable=0.9) == usual
    assert choose_micro_batching(None, settings, GB, usable=0.9) == usual


@pytest.mark.parametrize(
    ("placement", "gpus", "awake", "updating"),
    [
        ({}, 1, 0.5, 0.5),
        ({"sleep": True}, 1, 0.5, 0.9),
        ({"engine_memory": 0.7}, 1, 0.25, 0.25),
        ({"engine_memory": 0.98}, 1, 0.0, 0.0),
        ({}, 2, 0.9, 0.9),  # engine and learner on different GPUs
        ({"mode": "colocated", "sleep": True}, 2, 0.5, 0.9),
    ],
)
def test_a_colocated_engine_leaves_the_rest_of_the_card(
    placement: dict[str, Any], gpus: int, awake: float, updating: float
) -> None:
    settings = online("reinforcement", {}, placement=placement).hyperparameters.placement

    share = learner_share(settings, colocated=not settings.splits(gpus))

    assert (share.awake, share.updating) == pytest.approx((awake, updating))


def test_weights_must_fit_beside_an_engine_that_is_awake(shape: ModelShape) -> None:
    """80.3 GB are held: an update fits into 141 GB, waking up does not."""
    asked = online("reinforcement", {"offload": True}, placement={"sleep": True})
    held = learner_load(shape, asked, devices=1)
    settings = asked.hyperparameters

    awake = learner_share(settings.placement, colocated=True)
    apart = learner_share(settings.placement, colocated=False)

    assert estimate_learner(held, settings.optimizer, awake, 141 * GB).fits is False
    assert estimate_learner(held, settings.optimizer, apart, 141 * GB).fits is True


def test_the_nearest_setting_that_fits_is_named(shape: ModelShape) -> None:
    def remedy(card: int, **optimizer: Any) -> str | None:
        asked = online("reinforcement", optimizer)

        def estimated(settings: Any) -> Any:
            changed = asked.model_copy(update={"hyperparameters": settings})
            held = learner_load(shape, changed, devices=1)
            share = learner_share(settings.placement, colocated=True)
            return estimate_learner(held, settings.optimizer, share, card * GB)

        assert estimated(asked.hyperparameters).fits is False
        return online_remedy(asked.hyperparameters, colocated=True, estimated=estimated)

    assert remedy(320, gradient_checkpointing=False) == "optimizer.gradient_checkpointing: true"
    assert remedy(400, micro_batch_tokens=262_144) == "optimizer.micro_batch_tokens: 65536"
    assert remedy(300) == "placement.sleep: true"
    assert remedy(300, micro_batch_tokens=4096) == "placement.sleep: true"
    assert remedy(170) == "optimizer.offload: true and placement.sleep: true"
    assert remedy(80) == "optimizer.training_type: lora"
    assert remedy(8) is None


def test_the_longest_sequence_is_bounded_by_the_engine() -> None:
    multi_turn = {"multi_turn_enable": True, "max_total_response_length": 4096}
    long = online("reinforcement", {}, multi_turn=multi_turn)
    cut = online("reinforcement", {}, multi_turn=multi_turn, engine={"max_model_len": 3000})

    assert longest_sequence(long.hyperparameters) == 1024 + 4096
    assert longest_sequence(cut.hyperparameters) == 3000


def test_fsdp_refuses_an_optimizer_on_the_host() -> None:
    with pytest.raises(ValueError, match="offload requires the strategy ddp"):
        online("reinforcement", {"strategy": "fsdp", "offload": True})
