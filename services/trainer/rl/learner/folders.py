"""Folders that are there complete or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def complete_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder to write into; it becomes ``folder``, durably, when all went well.

    Raises FileExistsError when ``folder`` is there.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} is there already")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    for path in [*partial.rglob("*"), partial]:
        _flush(path)
    partial.rename(folder)
    _flush(folder.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
