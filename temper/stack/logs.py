"""Log files of the local stack: written by the services, bounded by the supervisor."""

import os
import shutil
from pathlib import Path

MAX_BYTES = 64 * 2**20
TAIL_BYTES = 1 << 16


def bound(log: Path) -> None:
    """Move a log beyond `MAX_BYTES` to ``<name>.1`` while the service keeps writing."""
    if not log.exists() or log.stat().st_size <= MAX_BYTES:
        return
    # The service keeps its append-mode descriptor and continues at the new start.
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)


def last_lines(log: Path, most: int = 15) -> list[str]:
    """Return the last lines of a log."""
    if not log.exists():
        return []
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-most:]
