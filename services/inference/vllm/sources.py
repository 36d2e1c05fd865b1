"""What a job serves: the model and its adapters."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class ModelSource:
    """The weights to serve: a folder of this host, or a hub repository at a revision.

    ``tokenizer`` is a folder that has one in place of the weights' own.
    """

    path: Path | None = None
    hub_id: str | None = None
    revision: str | None = None
    tokenizer: Path | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.hub_id is None):
            raise ValueError("give exactly one of path and hub_id")

    @property
    def location(self) -> str:
        """The folder's path or the repository's name."""
        return str(self.path) if self.path is not None else str(self.hub_id)


class LoraAdapter(NamedTuple):
    """An adapter over the served model: the name it answers to, and its folder."""

    name: str
    path: Path
