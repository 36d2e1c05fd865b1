"""How cells, kernels and notebooks come to their end."""

from dataclasses import dataclass

from services.sandbox.execution import SandboxFailure
from services.sandbox.sessions.messages import Done


@dataclass(frozen=True)
class Death:
    """The end of a kernel. ``return_code`` is -N after death by signal N."""

    return_code: int
    out_of_memory: bool


@dataclass(frozen=True)
class CellEnd:
    """How a cell came to its end: by itself, or with its kernel, or else with the notebook.

    ``begun`` is false for one that was not run, as the kernel had died before.
    """

    done: Done | None = None
    death: Death | None = None
    begun: bool = True
    interrupted: bool = False


class NotEnoughMemory(SandboxFailure):
    """No kernel can be started in the memory that was given."""


class NotebookEnded(Exception):
    """The notebook has ended, or ended while it was asked something."""
