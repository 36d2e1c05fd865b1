"""Searching on a GPU, where the installed faiss can."""

from threading import Lock

import faiss

from services.retrieval.vectors.base import Found
from services.retrieval.vectors.errors import DeviceUnavailable
from services.retrieval.vectors.plain import PlainBase
from services.retrieval.vectors.selection import Selection
from services.retrieval.vectors.vectors import Vectors


def checked_device(device: str) -> None:
    """Raises DeviceUnavailable when vectors cannot be searched on ``device``: cpu or cuda."""
    if device == "cpu":
        return
    if device != "cuda":
        raise DeviceUnavailable(f"the device {device!r} is neither cpu nor cuda")
    if not hasattr(faiss, "StandardGpuResources"):
        raise DeviceUnavailable(
            f"the installed faiss {faiss.__version__} cannot use a GPU: install a build of it"
            " that can, or search on the device cpu"
        )
    if not faiss.get_num_gpus():
        raise DeviceUnavailable("faiss finds no GPU: search on the device cpu")


class GpuBase:
    """Vectors compared one by one in the memory of the first GPU, as float16.

    Searches of a selection stay with ``base``: faiss's indexes for GPUs know none.
    """

    def __init__(self, base: PlainBase) -> None:
        """Raises DeviceUnavailable when there is no room for the vectors."""
        options = faiss.GpuClonerOptions()
        options.useFloat16 = True
        self._base = base
        self.held_bytes, self.mapped_bytes = base.held_bytes, base.mapped_bytes
        self._resources = faiss.StandardGpuResources()
        self._one_at_a_time = Lock()
        try:
            self._index = faiss.index_cpu_to_gpu(self._resources, 0, base.index, options)
        except (RuntimeError, MemoryError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise DeviceUnavailable(f"the vectors cannot be put on the GPU: {reason}") from error

    def search(self, queries: Vectors, k: int, selection: Selection | None) -> Found:
        """The nearest of all rows, or of the selected."""
        if selection is not None:
            return self._base.search(queries, k, selection)
        with self._one_at_a_time:  # The library's GPU resources are for one thread.
            return Found(*self._index.search(queries, k))
