"""Everything that depends on faiss's internals: indexes over memory-mapped files.

Holds for faiss 1.15; tests/unit/retrieval/vectors/test_faiss_files.py fails when it no longer does.
"""

import os
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from services.retrieval.vectors.base import Numbers
from services.retrieval.vectors.errors import VectorsUnusable
from services.retrieval.vectors.files import Bytes, sync, write_all, write_whole, writing

INNER_PRODUCT = faiss.METRIC_INNER_PRODUCT


def write_index(index: faiss.Index, path: Path) -> None:
    """Write an index as a whole; raises StorageFull."""
    write_whole(path, lambda aside: faiss.write_index(index, str(aside)))


def read_index(path: Path, flags: int = 0) -> Any:
    """The index in a file; raises VectorsUnusable."""
    try:
        return faiss.read_index(str(path), flags)
    except (RuntimeError, MemoryError) as error:
        # "Error in <function> at <place>: <reason>", over several lines.
        reason = str(error).strip().splitlines()[-1]
        raise VectorsUnusable(path, f"faiss cannot read it: {reason}") from error


def read_mapped_graph(path: Path) -> Any:
    """An HNSW index whose graph and codes stay in its file."""
    return read_index(path, faiss.IO_FLAG_MMAP_IFC)


def view_codes(index: Any, codes: Bytes) -> None:
    """Let an empty flat index search ``codes`` (rows, code size) in place.

    The caller keeps ``codes`` alive as long as the index.
    """
    # faiss's owner type has no Python constructor; the owner of an empty vector is null, as needed.
    nobody = faiss.MaybeOwnedVectorUInt8().owner
    address = faiss.cast_integer_to_void_ptr(codes.ctypes.data)
    index.codes = faiss.MaybeOwnedVectorUInt8.create_view(address, codes.nbytes, nobody)
    index.ntotal = len(codes)


def read_block(path: Path) -> Any:
    """An IVF index whose lists stay in its file."""
    return read_index(path, faiss.IO_FLAG_MMAP)


def list_contents(index: Any, number: int) -> tuple[Numbers, Bytes]:
    """The row numbers in a list of an IVF index and their codes; views, valid while it is."""
    lists = index.invlists
    size = lists.list_size(number)
    if not size:
        return np.empty(0, dtype=np.int64), np.empty((0, lists.code_size), dtype=np.uint8)
    codes = faiss.rev_swig_ptr(lists.get_codes(number), size * lists.code_size)
    return faiss.rev_swig_ptr(lists.get_ids(number), size), codes.reshape(size, -1)


def write_lists(blocks: list[Any], path: Path, into: Any) -> None:
    """Concatenate the lists of ``blocks`` into ``path`` and attach them to the index ``into``.

    Each list is its codes followed by its row numbers. Raises StorageFull.
    """
    lists = faiss.OnDiskInvertedLists(into.nlist, into.code_size, str(path))
    places, offset = faiss.OnDiskOneListVector(), 0
    with writing(path), open(path, "wb", buffering=0) as file:
        for number in range(into.nlist):
            parts = [list_contents(block, number) for block in blocks]
            for _, codes in parts:
                write_all(file.fileno(), codes.tobytes())
            for numbers, _ in parts:
                write_all(file.fileno(), numbers.tobytes())
            place = faiss.OnDiskOneList()
            place.size = place.capacity = sum(len(numbers) for numbers, _ in parts)
            place.offset = offset
            places.push_back(place)
            offset += place.size * (into.code_size + 8)
        os.fsync(file.fileno())
    sync(path.parent)
    lists.lists, lists.totsize = places, offset
    lists.read_only = True
    into.replace_invlists(lists, True)
    lists.this.disown()
    into.ntotal = sum(block.ntotal for block in blocks)


def read_mapped_lists(path: Path, lists_path: Path) -> Any:
    """An IVF index whose lists stay in the file ``lists_path``."""
    index = read_index(path, faiss.IO_FLAG_SKIP_IVF_DATA)
    lists = faiss.downcast_InvertedLists(index.invlists)
    if not isinstance(lists, faiss.OnDiskInvertedLists):
        raise VectorsUnusable(path, "it is not an index over mapped lists")
    if lists.totsize != lists_path.stat().st_size:
        raise VectorsUnusable(lists_path, "it does not belong to the index beside it")
    # The stored file name is that of the folder the index was built in.
    lists.filename = str(lists_path)
    lists.read_only = True
    lists.do_mmap()
    # Otherwise every search starts prefetch threads.
    lists.prefetch_nthread = 0
    return index
