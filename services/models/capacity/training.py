"""GPU memory that training takes, estimated before anything is started.

Bytes per weight that is trained: 10 in mixed precision (weight, its bfloat16 copy and gradient) or
4 with pure_bf16, and the optimizer's states; 2 for a frozen one in bfloat16, about half a byte for
one in four bits, which embeddings never are. Data parallelism copies all of it to each GPU, so the
memory of several GPUs does not add up; sharding splits what is trained, ZeRO 3 and FSDP the frozen
weights as well.

Activations are those that the backward pass reads in transformers' decoders with fused attention,
and the logits, a part at a time; some losses need them whole. With checkpointing a layer keeps its
input, and one layer at a time is computed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from services.contracts.llamafactory.names import Stage
from services.contracts.training.fine_tuning import MemoryEstimate
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.optimizer import TrainingType
from services.models.capacity.shape import LinearShape, ModelShape

TRAINED_BYTES = 18.0
"""Of a trained weight with Adam in mixed precision."""
WEIGHT_BYTES = 2.0
"""Of those, the copy that forward passes read."""
MIXED_BYTES = 10.0
"""Weight and gradient in float32, and a copy of the weight in bfloat16."""
PURE_BYTES = 4.0
"""Weight and gradient in bfloat16."""
FROZEN_BYTES = 2.0
QUANTIZED_BYTES = {4: 0.52, 8: 1.0}
"""In 4 bits (NF4, scales quantized too: Dettmers et al. 2023, arXiv:2305.14314) or 8."""
FLOAT32_BYTES = 4.0
LOGIT_BYTES = 12.0
"""Float32: logits, their log-softmax and its gradient."""
BASE_MARGIN = 1.05
"""For fragmentation and the CUDA context."""
USABLE = 0.9
"""Fraction of a GPU's memory that training may use."""

TOKENS_PER_DEVICE = 16_384
"""Token budget per device and step: rows of maximum length are batched up to this many."""
LOGITS_AT_ONCE = 2**26
"""Most logits that are held at a time; beyond that they are computed again for the gradient."""
WHOLE_LOGITS = ("use_dft_loss", "use_asft_loss", "use_eaft_loss", "label_smoothing_factor")
"""Arguments with which the library computes the loss, from the logits of a whole batch; so does
that of a mixture of experts, ``moe_aux_loss_coef``."""
MOST_WHOLE_LOGITS = 2**29
"""Most logits of such a batch, unless one row has more: 6.4 GB."""
SEQUENCES_PER_ROW = {Stage.SFT: 1, Stage.PT: 1, Stage.DPO: 2, Stage.RM: 2, Stage.KTO: 2}
"""A pair has two answers; KTO also reads each prompt with the answer of another row."""
RECORDED_SEQUENCES = {**SEQUENCES_PER_ROW, Stage.KTO: 1}
"""Those whose activations are kept for the backward pass at a time."""

AUTO_BATCH_SIZE = 16
DEFAULT_FREEZE_LAYERS = 2
"""LLaMA-Factory's freeze_trainable_layers."""


STATE_BYTES = {
    **{"adagrad": 4.0, "ademamix": 12.0, "ademamix_8bit": 3.0, "adafactor": 0.1, "sgd": 0.0},
    **{"lion_8bit": 1.0, "lion_32bit": 4.0, "rmsprop": 4.0, "rmsprop_bnb": 4.0},
    **{"rmsprop_bnb_8bit": 1.0, "rmsprop_bnb_32bit": 4.0},
    **{"adamw_8bit": 2.0, "adamw_bnb_8bit": 2.0},
}
"""Optimizer states of one weight; `ADAM_BYTES` for others. A paged optimizer has those of its kind.
"""
ADAM_BYTES = 8.0


@dataclass(frozen=True)
class MemoryLoad:
    """Load of one GPU: weights by how they are stored, and one micro-batch, which is computed in
    ``compute_bytes`` per number."""

    parameters: int
    trained: int
    frozen_bytes: float
    trained_bytes: float = TRAINED_BYTES
    copies: int = 0
    copy_bytes: float = FROZEN_BYTES
    tokens: int = 0
    checkpointing: bool = True
    other_bytes: float = 0.0
    logits_bytes: float = 0.0
    compute_bytes: float = 2.0


def estimate(
    shape: ModelShape, load: MemoryLoad, card_bytes: int | None = None, usable: float = USABLE
) -> MemoryEstimate:
    """The estimate for one GPU, in gigabytes of 1e9 bytes; whether it fits into the share
    ``usable`` of ``card_bytes``.

    ``copies`` are frozen models of the policy's shape beside it, such as the reference of a
    preference method; ``other_bytes`` are those of other shapes.
    """
    base = held_bytes(load) / 1e9
    activations = activation_bytes(shape, load) / 1e9
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


def in_float32(load: MemoryLoad) -> MemoryLoad:
    """The load where all is computed in float32: no copies of trained weights, and frozen ones of
    full width."""
    widened = FLOAT32_BYTES / FROZEN_BYTES
    return replace(
        load,
        trained_bytes=load.trained_bytes - WEIGHT_BYTES,
        frozen_bytes=widened * load.frozen_bytes,
        copy_bytes=widened * load.copy_bytes,
        compute_bytes=FLOAT32_BYTES,
    )


def held_bytes(load: MemoryLoad) -> float:
    """Weights, gradients and optimizer states."""
    trained = load.trained_bytes * load.trained
    frozen = load.frozen_bytes * load.parameters
    return trained + frozen + load.copy_bytes * load.parameters * load.copies + load.other_bytes


def activation_bytes(shape: ModelShape, load: MemoryLoad) -> float:
    """What one micro-batch adds at the peak, when the loss or the gradient of the last layer is
    computed."""
    layer = load.tokens * _layer_bytes(shape, load.compute_bytes)
    gradients = load.tokens * _gradient_bytes(shape, load.compute_bytes)
    if not load.checkpointing:
        return shape.layers * layer + max(gradients, load.logits_bytes)
    inputs = load.tokens * shape.layers * shape.hidden * load.compute_bytes
    return inputs + max(layer + gradients, load.logits_bytes)


def _layer_bytes(shape: ModelShape, number: float) -> float:
    """What the backward pass of one layer reads, of one token.

    Each of two norms keeps its input in float32, and its result before and after the scale;
    attention its queries, keys, values and result; the feed-forward layer what it activates,
    multiplies and projects.
    """
    norms = 2 * (FLOAT32_BYTES + 2 * number) * shape.hidden
    attention = number * (3 * shape.width("q_proj") + 2 * shape.width("k_proj"))
    return norms + attention + number * (4 if shape.gated else 2) * shape.inner


def _gradient_bytes(shape: ModelShape, number: float) -> float:
    """What the backward pass of one layer adds, of one token: the gradients of the feed-forward
    layer's widest states, less those that it no longer needs, and of its input and output."""
    return number * ((2 if shape.gated else 1) * shape.inner + 2 * shape.hidden)


def load_of(shape: ModelShape, settings: OfflineHyperparameters, devices: int) -> MemoryLoad:
    """What the settings of an offline method put on each of ``devices`` GPUs."""
    arguments = settings.llamafactory
    length = _positive(arguments.get("cutoff_len")) or settings.max_seq_length
    rows = rows_per_device(settings, length, devices, shape.vocabulary)
    trained_bytes, share = _cost_per_weight(settings, max(1, devices))
    tokens = length * rows * RECORDED_SEQUENCES[settings.stage]
    idle = _idle_parameters(shape, settings)
    return MemoryLoad(
        parameters=shape.parameters,
        trained=trained_parameters(shape, settings) - idle,
        other_bytes=(PURE_BYTES / 2 if is_pure(settings) else FLOAT32_BYTES) * idle,
        frozen_bytes=0.0
        if settings.training_type is TrainingType.FULL
        else _frozen_bytes(shape, arguments.get("quantization_bit"), share),
        trained_bytes=trained_bytes,
        copies=_copies(settings),
        tokens=tokens,
        checkpointing=arguments.get("disable_gradient_checkpointing") is not True,
        logits_bytes=_logits_bytes(shape, settings, tokens),
    )


def _logits_bytes(shape: ModelShape, settings: OfflineHyperparameters, tokens: int) -> float:
    """What the logits of a micro-batch take at the peak; of a reward model, the hidden states that
    scores are read from and their gradient, in float32."""
    if settings.stage is Stage.RM:
        return 2 * FLOAT32_BYTES * shape.hidden * tokens
    logits = tokens * shape.vocabulary
    if has_whole_logits(settings.llamafactory):
        return LOGIT_BYTES * logits
    return LOGIT_BYTES * min(logits, LOGITS_AT_ONCE)


def has_whole_logits(arguments: Mapping[str, object]) -> bool:
    """Whether the logits of a batch exist whole, under LLaMA-Factory's arguments."""
    return any(arguments.get(name) for name in (*WHOLE_LOGITS, "moe_aux_loss_coef"))


def _frozen_bytes(shape: ModelShape, bits: object, share: float) -> float:
    """Bytes per frozen weight on one GPU, which has this share of all weights."""
    quantized = QUANTIZED_BYTES.get(bits) if isinstance(bits, int) else None
    if quantized is None:
        return FROZEN_BYTES * share
    linear = shape.linear_parameters
    return (quantized * linear + FROZEN_BYTES * (shape.parameters - linear)) / shape.parameters


def _cost_per_weight(settings: OfflineHyperparameters, devices: int) -> tuple[float, float]:
    """Bytes per trained weight on one GPU, and the fraction of all weights stored there."""
    whole = _bytes_per_weight(settings)
    sharding = settings.sharding
    if sharding is None:
        return whole, 1.0
    share = 1 / devices if sharding.splits_weights else 1.0
    states = 0.0 if sharding.offloads else (whole - WEIGHT_BYTES) / devices
    return WEIGHT_BYTES * share + states, share


def _bytes_per_weight(settings: OfflineHyperparameters) -> float:
    """Bytes of a weight that is trained: itself, its gradient and its optimizer's states."""
    arguments = settings.llamafactory
    optimizer = str(arguments.get("optim") or "").removeprefix("paged_")
    states = STATE_BYTES.get(optimizer, ADAM_BYTES)
    if not is_pure(settings):
        return MIXED_BYTES + states
    # States have the type of the weights, unless they are quantized.
    return PURE_BYTES + (states if optimizer.endswith("8bit") else states / 2)


def is_pure(settings: OfflineHyperparameters) -> bool:
    """Whether weights that are trained are kept in bfloat16 alone."""
    return settings.llamafactory.get("pure_bf16") is True


def _idle_parameters(shape: ModelShape, settings: OfflineHyperparameters) -> int:
    """The weights of an output layer of its own under a reward model, whose loss they are no part
    of: they get neither gradients nor optimizer states."""
    if settings.stage is not Stage.RM or settings.training_type is not TrainingType.FULL:
        return 0
    return max(0, shape.embeddings - shape.vocabulary * shape.hidden)


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


def rows_per_device(
    settings: OfflineHyperparameters, length: int, devices: int, vocabulary: int
) -> int:
    """Rows of one micro-batch on one device."""
    given = _positive(settings.llamafactory.get("per_device_train_batch_size"))
    if given is not None:
        return given
    whole = has_whole_logits(settings.llamafactory)
    fitting = fitting_rows(length, settings.stage, vocabulary if whole else None)
    batch = AUTO_BATCH_SIZE if settings.batch_size == "auto" else settings.batch_size
    share = max(1, batch // max(1, devices))
    return max(n for n in range(1, share + 1) if share % n == 0 and n <= fitting)


def fitting_rows(length: int, stage: Stage, vocabulary: int | None) -> int:
    """How many rows of ``length`` tokens are batched on one device at most; ``vocabulary`` of whole
    logits."""
    tokens = TOKENS_PER_DEVICE
    if vocabulary:
        tokens = min(tokens, MOST_WHOLE_LOGITS // vocabulary)
    return max(1, tokens // (length * SEQUENCES_PER_ROW[stage]))


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
