"""The nearest settings with which a training fits on a GPU."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from services.contracts.training.fine_tuning import MemoryEstimate
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.online import OnlineSettings
from services.contracts.training.optimizer import OptimizerSettings, TrainingType
from services.contracts.training.placement import NOT_SHARDED, Sharding
from services.models.capacity.shape import ModelShape
from services.models.capacity.training import estimate, load_of

ROWS = "per_device_train_batch_size"
_LORA = "training_type: lora"
SHORTEST = 512
"""Tokens of the shortest rows, and of the smallest micro-batches, that are proposed."""


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
    optimizer on the host; then other precisions, adapters, quantized bases and shorter rows.
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
    least = lora
    if settings.sharding is None:
        least = lora.with_arguments("quantization_bit: 4", quantization_bit=4)
        yield least
    yield from _shorter(least)


def _shorter(start: _Offline) -> Iterator[_Offline]:
    """With shorter rows, which are cut."""
    cutoff = start.settings.llamafactory.get("cutoff_len")
    length = cutoff if isinstance(cutoff, int) else start.settings.max_seq_length
    while (length := length // 2) >= SHORTEST:
        if isinstance(cutoff, int):
            yield start.with_arguments(f"cutoff_len: {length}", cutoff_len=length)
            continue
        changed = start.settings.model_copy(update={"max_seq_length": length})
        yield _Offline((*start.text, f"max_seq_length: {length}"), changed)


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
    """From the nearest to the farthest; what trains the same comes first."""
    plain = _Online((), settings)
    smaller = [plain.with_optimizer(**each) for each in _smaller_batches(settings.optimizer)]
    yield from ((each.text, each.settings) for each in smaller)
    sleeps = colocated and not settings.placement.sleep
    optimizer = settings.optimizer
    changes: list[dict[str, Any]] = [{}]
    if not optimizer.offload and optimizer.strategy != "fsdp":
        changes.append({"offload": True})
    if optimizer.training_type is not TrainingType.LORA:
        changes.append({"training_type": TrainingType.LORA})
    for change in changes:
        for start in (plain, *smaller[-1:]):
            awake = start.with_optimizer(**change)
            if change:
                yield awake.text, awake.settings
            if sleeps:
                asleep = awake.asleep()
                yield asleep.text, asleep.settings


def _smaller_batches(optimizer: OptimizerSettings) -> Iterator[dict[str, Any]]:
    """Changes of what the settings name of micro-batches, each beside the one before."""
    change: dict[str, Any] = {}
    if optimizer.gradient_checkpointing is False:
        change = {"gradient_checkpointing": True}
        yield change
    tokens = optimizer.micro_batch_tokens or 0
    while (tokens := tokens // 2) >= SHORTEST:
        change = {**change, "micro_batch_tokens": tokens}
        yield change


@dataclass(frozen=True)
class _Online:
    """Changed settings, and the changes as a client writes them."""

    text: tuple[str, ...]
    settings: OnlineSettings

    def with_optimizer(self, **changes: Any) -> "_Online":
        """With other settings of the optimizer."""
        optimizer = self.settings.optimizer.model_copy(update=changes)
        text = (f"optimizer.{name}: {_written(value)}" for name, value in changes.items())
        changed = self.settings.model_copy(update={"optimizer": optimizer})
        return _Online((*self.text, *text), changed)

    def asleep(self) -> "_Online":
        """With an engine that gives its memory back during updates."""
        placement = self.settings.placement.model_copy(update={"sleep": True})
        changed = self.settings.model_copy(update={"placement": placement})
        return _Online((*self.text, "placement.sleep: true"), changed)


def _written(value: object) -> str:
    """As YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _joined(text: Iterable[str]) -> str:
    return " and ".join(text)
