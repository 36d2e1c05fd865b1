"""Loads what changed in a published folder over the weights that an engine has.

vLLM loads a layer of its own as a whole, and one of its layers may be several of the checkpoint's
(query, key and value; the experts of a mixture). Hence with a tensor that changed all those beside
it are read again. Written for vLLM 0.32.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.mtp_validation import disable_mtp_completeness_check
from vllm.model_executor.model_loader.reload import inplace, layerwise

from services.inference.weights.parts import tensors_to_load


@dataclass
class FolderInit(WeightTransferInitInfo):  # type: ignore[misc]  # vLLM is untyped here
    """The version of the weights that the engine started with."""

    version: int


@dataclass
class FolderUpdate(WeightTransferUpdateInfo):  # type: ignore[misc]  # vLLM is untyped here
    """A folder with a version of the weights; those not in ``names`` are those of version ``base``.
    Without ``names`` all are loaded."""

    folder: str
    version: int
    base: int | None = None
    names: list[str] | None = None


class FolderEngine(WeightTransferEngine):  # type: ignore[misc]  # vLLM is untyped here
    """Reads weights from the files of a folder, which may be in shared memory."""

    init_info_cls = FolderInit
    update_info_cls = FolderUpdate

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._version: int | None = None
        """None while weights of two versions are mixed."""
        self._next: int | None = None

    def init_transfer_engine(self, init_info: FolderInit) -> None:
        """Learn which version the engine has."""
        self._version = init_info.version

    def start_weight_update(self) -> None:
        """Put each layer into the form that a checkpoint is loaded into."""
        self._next = None
        inplace.initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load a `FolderUpdate`."""
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FolderUpdate) -> None:
        """Load the weights of an update; raises ValueError if the engine does not have its base."""
        names = update_info.names
        if names is not None and update_info.base != self._version:
            raise ValueError(f"an update of version {update_info.base} met {self._version}")
        self._version, self._next = None, update_info.version
        with disable_mtp_completeness_check():
            self.model.load_weights(stored_tensors(Path(update_info.folder), names))

    def finish_weight_update(self) -> None:
        """Bring the layers into the form that they compute in."""
        with _without_warnings(layerwise.logger):
            inplace.finalize_layerwise_reload(self.model, self.model_config)
        self._version = self._next

    def shutdown(self) -> None:
        """Do nothing: no file is open between updates."""


def stored_tensors(folder: Path, changed: Collection[str] | None) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a folder that have to be loaded if these changed; None: all."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in tensors_to_load(list(file.keys()), changed):
                yield name, file.get_tensor(name)


@contextmanager
def _without_warnings(logger: logging.Logger) -> Iterator[None]:
    """Silence the warning of each layer that no weights were loaded for."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
