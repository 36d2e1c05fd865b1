"""Picks GPUs by free memory for an engine without a job's lease."""

from collections.abc import Sequence
from dataclasses import dataclass

import pynvml

from services.contracts.errors import InvalidRequest
from services.jobs.gpus import visible_gpus

GIBIBYTE = 2**30


@dataclass(frozen=True)
class Card:
    """A GPU; memory in bytes."""

    uuid: str
    name: str
    free: int
    total: int

    def __str__(self) -> str:
        sizes = f"{self.free / GIBIBYTE:.1f} of {self.total / GIBIBYTE:.1f} GiB free"
        return f"{self.name} {self.uuid}: {sizes}"


def visible_cards() -> list[Card]:
    """The GPUs that this process may use, by NVML."""
    uuids = visible_gpus()
    if not uuids:
        return []
    pynvml.nvmlInit()
    try:
        return [_card(uuid) for uuid in uuids]
    finally:
        pynvml.nvmlShutdown()


def choose_cards(cards: Sequence[Card], count: int, utilization: float) -> list[str]:
    """The UUIDs of the ``count`` cards with most free memory.

    A card is usable when more of it is free than ``utilization``, the share of ITS memory that the
    engine will take. Raises InvalidRequest, naming all cards, when too few are.
    """
    usable = [card for card in cards if card.free > utilization * card.total]
    if len(usable) < count:
        found = "; ".join(map(str, cards)) or "there is none"
        raise InvalidRequest(
            f"{count} GPU{'s' * (count > 1)} with {utilization:.0%} of the memory free "
            f"(gpu_memory_utilization) wanted, {len(usable)} found: {found}"
        )
    usable.sort(key=lambda card: card.free, reverse=True)
    return [card.uuid for card in usable[:count]]


def _card(uuid: str) -> Card:
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return Card(uuid, str(pynvml.nvmlDeviceGetName(handle)), int(memory.free), int(memory.total))
