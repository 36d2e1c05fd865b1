"""GPU memory that the learner of online training needs, and its micro-batch size there.

Bytes per trained weight, as in offline training: 18 (weight, gradient, bfloat16 copy, two moments).
Moments on the host save 8 of them; DDP keeps the gradients a second time, in buckets. FSDP and ZeRO
divide what they shard by the number of processes; a reference and a local teacher are whole
everywhere. An engine on the same GPU leaves the rest of its share to the learner.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from services.contracts.training.fine_tuning import MemoryEstimate
from services.contracts.training.online import (
    DistillationMethod,
    OnlineSettings,
    PpoHyperparameters,
    PpoMethod,
    ReinforcementMethod,
)
from services.contracts.training.optimizer import OptimizerSettings, TrainingType
from services.contracts.training.placement import OnlinePlacement
from services.models.capacity.shape import ModelShape
from services.models.capacity.training import (
    FLOAT32_BYTES,
    FROZEN_BYTES,
    LOGITS_AT_ONCE,
    TRAINED_BYTES,
    USABLE,
    MemoryLoad,
    estimate,
    in_float32,
    lora_parameters,
)

Online = ReinforcementMethod | PpoMethod | DistillationMethod

MOMENT_BYTES = 8.0
"""Two float32 moments of Adam, of each trained weight."""
BUCKET_BYTES = 4.0
"""DDP's buckets of gradients, of each trained weight."""
ZERO_WEIGHT_BYTES, ZERO_GRADIENT_BYTES = 2.0, 2.0
"""DeepSpeed stores weights and gradients in bfloat16; the rest is its optimizer's."""
RESERVED = 0.05
"""Fraction of a GPU for the CUDA contexts of learner and engine, and for fragmentation."""
LOGIT_BYTES = 16.0
"""Float32: logits, their log-softmax, its exponential and the gradient."""
MAX_TOKENS = 16_384
"""Most tokens of a micro-batch even with more memory: larger ones are hardly faster."""
EFFICIENT_TOKENS = 4096
"""Smaller micro-batches cost more than recomputing activations."""


@dataclass(frozen=True)
class LearnerShare:
    """Shares of a GPU's memory that the learner may fill: ``awake`` beside an engine that holds its
    own, ``updating`` during an update."""

    awake: float
    updating: float


def learner_share(placement: OnlinePlacement, *, colocated: bool) -> LearnerShare:
    """The learner's share of its GPUs, with or without engines on them."""
    if not colocated:
        return LearnerShare(USABLE, USABLE)
    beside = max(0.0, 1.0 - RESERVED - placement.engine_memory)
    return LearnerShare(beside, USABLE if placement.sleep else beside)


@dataclass(frozen=True)
class MicroBatching:
    """Tokens of one forward pass, and whether activations are recomputed in the backward pass."""

    tokens: int
    checkpointing: bool


@dataclass(frozen=True)
class LearnerLoad:
    """What a learner holds on each of its GPUs, and the longest sequence that it must compute.

    ``head_bytes`` are those of an output layer that is copied to compute logits in float32.
    """

    shape: ModelShape
    held: MemoryLoad
    longest: int
    head_bytes: float = 0.0

    def estimate(
        self, batching: MicroBatching, card_bytes: int | None, usable: float
    ) -> MemoryEstimate:
        """The estimate with micro-batches of this kind; a longer sequence is one of its own."""
        longest = max(batching.tokens, self.longest)
        load = self.with_batching(replace(batching, tokens=longest))
        return estimate(self.shape, load, card_bytes, usable)

    def with_batching(self, batching: MicroBatching) -> MemoryLoad:
        """What it holds, with micro-batches of this kind."""
        logits = min(batching.tokens * self.shape.vocabulary, LOGITS_AT_ONCE)
        return replace(
            self.held,
            tokens=batching.tokens,
            checkpointing=batching.checkpointing,
            logits_bytes=LOGIT_BYTES * logits + self.head_bytes,
        )


def learner_load(
    shape: ModelShape,
    online: Online,
    *,
    devices: int,
    continues_adapter: bool = False,
    teacher: ModelShape | None = None,
) -> LearnerLoad:
    """What the settings of an online method put on each of ``devices`` GPUs of the learner."""
    settings = online.hyperparameters
    optimizer = settings.optimizer
    full = optimizer.training_type is TrainingType.FULL
    trained = shape.parameters
    if not full:
        trained = lora_parameters(shape, optimizer.lora.rank, optimizer.lora.target_modules)
    models = 2 if _has_critic_model(settings) else 1
    trained_bytes, share = _cost_per_weight(optimizer, devices)
    held = MemoryLoad(
        parameters=shape.parameters,
        trained=models * trained,
        trained_bytes=trained_bytes,
        frozen_bytes=0.0 if full else models * FROZEN_BYTES * share,
        copies=int(_has_reference(online) and (full or continues_adapter)),
        other_bytes=0.0 if teacher is None else FROZEN_BYTES * teacher.parameters,
    )
    head_bytes = 0.0 if full else FLOAT32_BYTES * shape.vocabulary * shape.hidden
    if optimizer.dtype == "float32":
        held, head_bytes = in_float32(held), 0.0
    return LearnerLoad(shape, held, longest_sequence(settings), head_bytes)


def estimate_learner(
    load: LearnerLoad, settings: OptimizerSettings, share: LearnerShare, card_bytes: int | None
) -> MemoryEstimate:
    """The estimate with the micro-batches that would be chosen; it fits only if what is held also
    fits beside an engine that is awake."""
    batching = choose_micro_batching(load, settings, card_bytes, share.updating)
    found = load.estimate(batching, card_bytes, share.updating)
    if card_bytes is None:
        return found
    held = found.base_gb <= share.awake * card_bytes / 1e9
    return found.model_copy(update={"fits": bool(found.fits) and held})


def longest_sequence(settings: OnlineSettings) -> int:
    """Tokens of the longest prompt with the longest response."""
    response = settings.multi_turn.max_total_response_length or settings.sampling.max_tokens
    longest = settings.max_prompt_length + response
    return min(longest, settings.engine.max_model_len or longest)


def choose_micro_batching(
    load: LearnerLoad | None, settings: OptimizerSettings, card_bytes: int | None, usable: float
) -> MicroBatching:
    """The fastest micro-batches that fit into the share ``usable`` of a GPU; the smallest if none
    does.

    What the settings name is kept. Without a GPU (``card_bytes`` None) or a known shape nothing is
    estimated.
    """
    if load is None or card_bytes is None:
        tokens = settings.micro_batch_tokens or MAX_TOKENS
        return MicroBatching(tokens, settings.gradient_checkpointing or False)
    options = list(_micro_batchings(settings, load.longest))
    fitting = (each for each in options if load.estimate(each, card_bytes, usable).fits)
    return next(fitting, options[-1])


def _micro_batchings(settings: OptimizerSettings, longest: int) -> Iterator[MicroBatching]:
    """Micro-batches that the settings allow, from the fastest to the smallest."""
    sizes = [settings.micro_batch_tokens or MAX_TOKENS]
    while settings.micro_batch_tokens is None and sizes[-1] // 2 >= longest:
        sizes.append(sizes[-1] // 2)
    if settings.gradient_checkpointing is not True:
        only = settings.gradient_checkpointing is False
        efficient = [each for each in sizes if only or each >= EFFICIENT_TOKENS]
        yield from (MicroBatching(size, checkpointing=False) for size in efficient)
    if settings.gradient_checkpointing is not False:
        yield from (MicroBatching(size, checkpointing=True) for size in sizes)


def _has_critic_model(settings: OnlineSettings) -> bool:
    return isinstance(settings, PpoHyperparameters) and settings.critic.kind == "separate"


def _has_reference(online: Online) -> bool:
    return not isinstance(online, DistillationMethod) and online.hyperparameters.loss.kl is not None


def _cost_per_weight(settings: OptimizerSettings, devices: int) -> tuple[float, float]:
    """Bytes per trained weight on one GPU, and the fraction of all weights stored there."""
    moments = MOMENT_BYTES if settings.offload else 0.0
    if devices == 1 or settings.strategy == "ddp":
        return TRAINED_BYTES - moments + (BUCKET_BYTES if devices > 1 else 0.0), 1.0
    if settings.strategy == "fsdp":
        return TRAINED_BYTES / devices, 1 / devices
    weights, gradients = ZERO_WEIGHT_BYTES, ZERO_GRADIENT_BYTES
    optimizer = 0.0 if settings.offload else TRAINED_BYTES - weights - gradients
    match settings.zero_stage:
        case 1:
            return weights + gradients + optimizer / devices, 1.0
        case 3:
            return (weights + gradients + optimizer) / devices, 1 / devices
        case _:
            return weights + (gradients + optimizer) / devices, 1.0
