"""What a server is to serve beside chats."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AdapterSlots:
    """Room for adapters that come while the server runs: ``count`` of them at once, none of a
    higher ``rank``."""

    rank: int
    count: int


@dataclass(frozen=True)
class Routes:
    """What a server can be asked for.

    ``tokens``: token ids for token ids, with the log-probabilities of what was sampled from.
    ``weights``: development routes that pause the engine and exchange its weights. ``adapters``:
    adapters can be loaded by their folder. ``sleep``: the memory of the GPUs can be given back.
    All of it is for whoever has the server's key alone.
    """

    tokens: bool = False
    weights: bool = False
    sleep: bool = False
    adapters: AdapterSlots | None = None
