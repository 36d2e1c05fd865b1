"""Takes weights from the learner's GPU: from its memory (CUDA IPC), or over NCCL.

vLLM's own engines receive them; this one adds the version, and a handle of a buffer as JSON where
vLLM's has a pickle. Written for vLLM 0.32.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.distributed.weight_transfer.ipc_engine import (
    IPCWeightTransferEngine,
    IPCWeightTransferInitInfo,
    IPCWeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.nccl_engine import (
    NCCLWeightTransferEngine,
    NCCLWeightTransferInitInfo,
    NCCLWeightTransferUpdateInfo,
)

from services.inference.weights.cuda_handles import buffer_handle
from services.inference.weights.folder_engine import FolderEngine, FolderUpdate


@dataclass
class DirectInit(WeightTransferInitInfo):  # type: ignore[misc]  # vLLM is untyped here
    """The version that the engine started with, or a group of NCCL to join."""

    version: int | None = None
    group: dict[str, Any] | None = None


@dataclass
class DirectUpdate(WeightTransferUpdateInfo):  # type: ignore[misc]  # vLLM is untyped here
    """Tensors of a version: those packed in a ``buffer`` of this GPU, with their sizes in bytes, or
    those that the learner broadcasts."""

    version: int
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    sizes: list[int] = field(default_factory=list)
    buffer: dict[str, Any] | None = None


class DirectEngine(FolderEngine):
    """Takes weights from a GPU, and from folders."""

    init_info_cls = DirectInit

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._buffers = IPCWeightTransferEngine(*given)
        self._buffers.init_transfer_engine(IPCWeightTransferInitInfo(packed=True))
        self._group: Any = None

    def init_transfer_engine(self, init_info: DirectInit) -> None:
        """Learn the version, or join a group."""
        if init_info.version is not None:
            self._version = init_info.version
        if init_info.group is not None:
            if self._group is not None:
                self._group.shutdown()
            self._group = NCCLWeightTransferEngine(
                self.config, self.vllm_config, self.device, self.model
            )
            self._group.init_transfer_engine(NCCLWeightTransferInitInfo(**init_info.group))

    def parse_update_info(self, update_dict: dict[str, Any]) -> Any:
        """A `FolderUpdate` or a `DirectUpdate`; raises ValueError for anything else."""
        kind: Any = FolderUpdate if "folder" in update_dict else DirectUpdate
        self.update_info_cls = kind
        return super().parse_update_info(update_dict)

    def receive_weights(self, update_info: Any) -> None:
        """Load the weights of an update."""
        if isinstance(update_info, FolderUpdate):
            super().receive_weights(update_info)
            return
        self._version, self._next = None, update_info.version
        tensors = {
            "names": update_info.names,
            "dtype_names": update_info.dtype_names,
            "shapes": update_info.shapes,
        }
        if update_info.buffer is None:
            if self._group is None:
                raise ValueError("the engine has joined no group")
            self._group.receive_weights(NCCLWeightTransferUpdateInfo(**tensors))
            return
        card = str(torch.cuda.get_device_properties(self.device.index).uuid)
        handles = {card: buffer_handle(update_info.buffer)}
        self._buffers.receive_weights(
            IPCWeightTransferUpdateInfo(
                **tensors, ipc_handles=handles, tensor_sizes=update_info.sizes
            )
        )

    def finish_weight_update(self) -> None:
        """Bring the layers into the form that they compute in, and let go of the buffer."""
        super().finish_weight_update()
        self._buffers.shutdown()

    def shutdown(self) -> None:
        """Leave the group."""
        self._buffers.shutdown()
        if self._group is not None:
            self._group.shutdown()
            self._group = None
