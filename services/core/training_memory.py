"""GPU memory that training takes, estimated before anything is started.

Bytes per weight: 18 for one that is trained with Adam in mixed precision (weight, gradient, master
copy and two moments), 2 for a frozen one in bfloat16, 0.5 for a frozen one in four bits. Data
parallelism copies all of it to each GPU, so the memory of several GPUs does not add up; sharding
splits what is trained, ZeRO 3 and FSDP the frozen weights as well.
"""

from dataclasses import dataclass

from services.contracts.adaptation import TrainingType
from services.contracts.fine_tuning import MemoryEstimate
from services.contracts.offline import OfflineHyperparameters
from services.contracts.sharding import Sharding
from services.contracts.stages import Stage
from services.core.model_shape import LinearShape, ModelShape

TRAINED_BYTES = 18.0
WEIGHT_BYTES = 2.0
"""Of those, the weight itself."""
FROZEN_BYTES = 2.0
QUANTIZED_BYTES = 0.5
ACTIVATION_BYTES = 8 * 1.2
"""For each token, layer and hidden unit."""
CHECKPOINTED = 0.35
"""Fraction of the activations that is kept with gradient checkpointing."""
BASE_MARGIN = 1.2
USABLE = 0.9
"""Fraction of a GPU's memory that training may use."""

TOKENS_PER_DEVICE = 16_384
"""Token budget per device and step: rows of maximum length are batched up to this many."""
SEQUENCES_PER_ROW = {Stage.SFT: 1, Stage.PT: 1, Stage.DPO: 2, Stage.RM: 2, Stage.KTO: 2}
"""A pair has two answers; KTO also reads each prompt with the answer of another row."""

AUTO_BATCH_SIZE = 16
DEFAULT_FREEZE_LAYERS = 2
"""LLaMA-Factory's freeze_trainable_layers."""


@dataclass(frozen=True)
class MemoryLoad:
    """Load of one GPU: weights by how they are stored, and one micro-batch."""

    parameters: int
    trained: int
    frozen_bytes: float
    trained_bytes: float = TRAINED_BYTES
    copies: int = 0
    tokens: int = 0
    checkpointing: bool = True
    other_bytes: float = 0.0
    logits_bytes: float = 0.0


def estimate(
    shape: ModelShape, load: MemoryLoad, card_bytes: int | None = None, usable: float = USABLE
) -> MemoryEstimate:
    """The estimate for one GPU, in gigabytes of 1e9 bytes; whether it fits into the share
    ``usable`` of ``card_bytes``.

    ``copies`` are frozen models of the policy's shape beside it, such as the reference of a
    preference method; ``other_bytes`` are those of other shapes.
    """
    trained = load.trained_bytes * load.trained
    frozen = 0.0 if load.trained == load.parameters else load.frozen_bytes * load.parameters
    copied = FROZEN_BYTES * load.parameters * load.copies + load.other_bytes
    base = (trained + frozen + copied) / 1e9
    activations = load.tokens * shape.hidden * shape.layers * ACTIVATION_BYTES / 1e9
    activations *= CHECKPOINTED if load.checkpointing else 1.0
    activations += load.logits_bytes / 1e9
    needed = BASE_MARGIN * base + activations
    return MemoryEstimate(
        parameters=load.parameters,
        trained_parameters=load.trained,
        base_gb=round(base, 3),
        activations_gb=round(activations, 3),
        needed_gb=round(needed, 3),
        card_gb=None if card_bytes is None else round(card_bytes / 1e9, 3),
        fits=None if card_bytes is None else needed <= usable * card_bytes / 1e9,
    )


def load_of(shape: ModelShape, settings: OfflineHyperparameters, devices: int) -> MemoryLoad:
    """What the settings of an offline method put on each of ``devices`` GPUs."""
    arguments = settings.llamafactory
    length = _positive(arguments.get("cutoff_len")) or settings.max_seq_length
    rows = rows_per_device(settings, length, devices)
    trained_bytes, share = _cost_per_weight(settings.sharding, max(1, devices))
    return MemoryLoad(
        parameters=shape.parameters,
        trained=trained_parameters(shape, settings),
        frozen_bytes=QUANTIZED_BYTES * int(arguments.get("quantization_bit") or 0) / 4
        or FROZEN_BYTES * share,
        trained_bytes=trained_bytes,
        copies=_copies(settings),
        tokens=length * rows * SEQUENCES_PER_ROW[settings.stage],
        checkpointing=arguments.get("disable_gradient_checkpointing") is not True,
    )


def _cost_per_weight(sharding: Sharding | None, devices: int) -> tuple[float, float]:
    """Bytes per trained weight on one GPU, and the fraction of all weights stored there."""
    if sharding is None:
        return TRAINED_BYTES, 1.0
    share = 1 / devices if sharding.splits_weights else 1.0
    states = 0.0 if sharding.offloads else (TRAINED_BYTES - WEIGHT_BYTES) / devices
    return WEIGHT_BYTES * share + states, share


def trained_parameters(shape: ModelShape, settings: OfflineHyperparameters) -> int:
    """The number of weights that are trained."""
    if settings.training_type is TrainingType.FULL:
        return shape.parameters
    if settings.training_type is TrainingType.FREEZE:
        asked = settings.llamafactory.get("freeze_trainable_layers", DEFAULT_FREEZE_LAYERS)
        layers = abs(asked) if isinstance(asked, int) else DEFAULT_FREEZE_LAYERS
        inside = shape.parameters - shape.embeddings
        return inside * min(layers, shape.layers) // shape.layers
    rank = _positive(settings.llamafactory.get("lora_rank")) or settings.lora.rank
    return lora_parameters(shape, rank, settings.lora.target_modules)


def lora_parameters(shape: ModelShape, rank: int, target_modules: list[str] | None) -> int:
    """The weights of an adapter of the named modules; of all where a name is not known."""
    targets = _targets(shape, target_modules)
    return sum(rank * (each.inputs + each.outputs) * each.count for each in targets)


def rows_per_device(settings: OfflineHyperparameters, length: int, devices: int) -> int:
    """Rows of one micro-batch on one device."""
    given = _positive(settings.llamafactory.get("per_device_train_batch_size"))
    if given is not None:
        return given
    fitting = fitting_rows(length, settings.stage)
    batch = AUTO_BATCH_SIZE if settings.batch_size == "auto" else settings.batch_size
    share = max(1, batch // max(1, devices))
    return max(n for n in range(1, share + 1) if share % n == 0 and n <= fitting)


def fitting_rows(length: int, stage: Stage) -> int:
    """How many rows of ``length`` tokens are batched on one device at most."""
    return max(1, TOKENS_PER_DEVICE // (length * SEQUENCES_PER_ROW[stage]))


def _copies(settings: OfflineHyperparameters) -> int:
    """Under LoRA the reference is the base with the adapter switched off."""
    if settings.named_reference is not None:
        return 1
    return int(settings.has_reference and settings.training_type is not TrainingType.LORA)


def _targets(shape: ModelShape, names: list[str] | None) -> list[LinearShape]:
    """The modules that LoRA adapts: those named, or all where a name is not known."""
    known = {module.name for module in shape.modules}
    if names is None or not known.issuperset(names):
        return list(shape.modules)
    return [module for module in shape.modules if module.name in names]


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
