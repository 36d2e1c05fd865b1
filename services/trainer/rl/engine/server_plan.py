"""What the servers of a policy have in common, and how one is started."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.contracts.engine import VllmOptions
from services.core.artifacts import ModelSource
from services.inference.vllm.routes import AdapterSlots, Routes
from services.inference.vllm.server import StartupProgress, VllmServer

BASE = "policy"
"""The name that the model itself, without an adapter, is served under."""


@dataclass(frozen=True)
class Weights:
    """A version of the policy. ``folder`` holds all its weights, or those of an adapter that is
    served under the name ``adapter``; null: the model that training began with."""

    version: int
    folder: Path | None = None
    adapter: str | None = None

    @property
    def served_name(self) -> str:
        """What requests for this version ask for."""
        return self.adapter or BASE


@dataclass(frozen=True)
class ServerPlan:
    """How a server is started; ``devices`` None: with all GPUs that are visible.

    ``slots`` make the policy an adapter over ``model``; ``tokenizer`` is a folder that has one.
    """

    runtime_python: Path
    model: Path
    tokenizer: Path
    job_dir: Path
    log: str
    options: VllmOptions
    devices: tuple[str, ...] | None
    slots: AdapterSlots | None
    sleep: bool
    on_progress: Callable[[StartupProgress], None] | None

    def server(self, weights: Weights) -> VllmServer:
        """A server that starts with ``weights``, but for an adapter, which is loaded later."""
        whole = None if self.slots else weights.folder
        return VllmServer(
            self.runtime_python,
            ModelSource(path=whole or self.model, tokenizer=self.tokenizer),
            BASE,
            [],
            self.job_dir,
            self.options,
            on_progress=self.on_progress,
            routes=Routes(tokens=True, weights=True, sleep=self.sleep, adapters=self.slots),
            devices=self.devices,
            log=self.log,
        )
