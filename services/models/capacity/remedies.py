"""The nearest settings with which a training fits on a GPU."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from services.contracts.training.adaptation import TrainingType
from services.contracts.training.fine_tuning import MemoryEstimate
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.online import OnlineSettings
from services.contracts.training.sharding import NOT_SHARDED, Sharding
from services.models.capacity.shape import ModelShape
from services.models.capacity.training import estimate, load_of

ROWS = "per_device_train_batch_size"
_LORA = "training_type: lora"


@dataclass(frozen=True)
class _Offline:
    """Changed settings, and the changes as a client writes them."""

    text: tuple[str, ...]
    settings: OfflineHyperparameters

    def with_arguments(self, text: str, **arguments: bool | int | str) -> "_Offline":
        """With more of LLaMA-Factory's arguments."""
        changed = {**self.settings.llamafactory, **arguments}
        return _Offline(
            (*self.text, text), self.settings.model_copy(update={"llamafactory": changed})
        )


def offline_remedy(
    shape: ModelShape, settings: OfflineHyperparameters, devices: int, card_bytes: int
) -> str | None:
    """Settings, as ``name: value``, with which an offline training fits; None if none is known.

    Those that train the same come first: smaller micro-batches, recomputed activations and an
    optimizer on the host; then other precisions, adapters and quantized bases.
    """
    for each in _offline(settings):
        if estimate(shape, load_of(shape, each.settings, devices), card_bytes).fits:
            return _joined(each.text)
    return None


def _offline(settings: OfflineHyperparameters) -> Iterator[_Offline]:
    start = _Offline((), settings)
    if settings.llamafactory.get("disable_gradient_checkpointing") is True:
        start = start.with_arguments(
            "disable_gradient_checkpointing: false", disable_gradient_checkpointing=False
        )
        yield start
    given = settings.llamafactory.get(ROWS)
    rows = [each for each in (8, 4, 2, 1) if not isinstance(given, int) or each < given]
    yield from (start.with_arguments(f"{ROWS}: {each}", **{ROWS: each}) for each in rows)
    small = start.with_arguments(f"{ROWS}: 1", **{ROWS: 1}) if rows else start
    named = any(settings.llamafactory.get(name) for name in NOT_SHARDED)
    if settings.sharding is None and not named:
        for sharding in (Sharding.ZERO_2_OFFLOAD, Sharding.ZERO_3_OFFLOAD):
            changed = small.settings.model_copy(update={"sharding": sharding})
            yield _Offline((*small.text, f"sharding: {sharding.value}"), changed)
    if settings.training_type is TrainingType.FULL and settings.sharding is None:
        yield small.with_arguments("pure_bf16: true", pure_bf16=True)
        yield small.with_arguments(
            "pure_bf16: true and optim: adamw_8bit", pure_bf16=True, optim="adamw_8bit"
        )
    lora = small
    if settings.training_type is not TrainingType.LORA:
        changed = small.settings.model_copy(update={"training_type": TrainingType.LORA})
        lora = _Offline((*small.text, _LORA), changed)
        yield lora
    if settings.sharding is None:
        yield lora.with_arguments("quantization_bit: 4", quantization_bit=4)


def online_remedy(
    settings: OnlineSettings,
    *,
    colocated: bool,
    estimated: Callable[[OnlineSettings], MemoryEstimate],
) -> str | None:
    """As `offline_remedy`, for the learner of online training; ``estimated`` is its estimate with
    changed settings."""
    for text, changed in _online(settings, colocated=colocated):
        if estimated(changed).fits:
            return _joined(text)
    return None


def _online(
    settings: OnlineSettings, *, colocated: bool
) -> Iterator[tuple[tuple[str, ...], OnlineSettings]]:
    sleeping = settings
    if colocated and not settings.placement.sleep:
        placement = settings.placement.model_copy(update={"sleep": True})
        sleeping = settings.model_copy(update={"placement": placement})
        yield ("placement.sleep: true",), sleeping
    sleep = () if sleeping is settings else ("placement.sleep: true",)
    optimizer = settings.optimizer
    if not optimizer.offload and optimizer.strategy != "fsdp":
        offloaded = optimizer.model_copy(update={"offload": True})
        text = "optimizer.offload: true"
        yield (text,), settings.model_copy(update={"optimizer": offloaded})
        if sleep:
            yield (text, *sleep), sleeping.model_copy(update={"optimizer": offloaded})
    if optimizer.training_type is not TrainingType.LORA:
        lora = optimizer.model_copy(update={"training_type": TrainingType.LORA})
        text = "optimizer.training_type: lora"
        yield (text,), settings.model_copy(update={"optimizer": lora})
        if sleep:
            yield (text, *sleep), sleeping.model_copy(update={"optimizer": lora})


def _joined(text: Iterable[str]) -> str:
    return " and ".join(text)
