"""The folder that hands weights from the learner to the engine."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from services.trainer.rl.weight_sync import KEPT

WEIGHTS = "weights"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - in a private folder
PREFIX = "temper-weights-"
_LOCK = "lock"
MEMORY_SHARE = 0.5
"""Share of the host's available memory to use: learner and engine need the rest."""
GIGABYTE = 1e9
_AVAILABLE = "MemAvailable:"


@contextmanager
def weight_folder(
    job_dir: Path,
    model: Path,
    shared: Path = SHARED_MEMORY,
    available: int | None = None,
    *,
    version_bytes: int | None = None,
    warn: Callable[[str], None] | None = None,
) -> Iterator[Path]:
    """A folder for the published versions of ``model``'s weights.

    It is in shared memory if all coexisting versions fit there, so that a weight sync does not wait
    for a disk; otherwise in ``job_dir``, and ``warn`` is told why. ``available`` is the host's free
    memory in bytes, by default as reported by the kernel, ``version_bytes`` the size of a version,
    by default that of the model's files. Leftovers of killed trainings are removed from memory.
    """
    if shared.is_dir():
        _remove_abandoned(shared)
    needed = KEPT * (version_bytes or weight_bytes(model))
    room = _room(shared, available_memory() if available is None else available)
    if needed > room:
        if warn is not None:
            warn(_explanation(shared, needed, room))
        yield job_dir / WEIGHTS
        return
    new = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=shared))
    folder = shared / new.name.removeprefix(".")
    lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(folder)  # locked before another training sees it
        yield folder / WEIGHTS
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def weight_bytes(model: Path) -> int:
    """The size of a model's weights on disk."""
    return sum(path.stat().st_size for path in model.glob("*.safetensors"))


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """The kernel's estimate of memory in bytes available without swapping; 0 if unknown."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith(_AVAILABLE)]
    return int(found[0]) * 1024 if found else 0


def _room(shared: Path, available: int) -> int:
    """How many bytes of weights shared memory may hold."""
    if not os.access(shared, os.W_OK):
        return -1
    return min(shutil.disk_usage(shared).free, int(MEMORY_SHARE * available))


def _explanation(shared: Path, needed: int, room: int) -> str:
    """Why weights are not in shared memory."""
    where = "Weights pass through the job's folder, not through memory"
    if room < 0:
        return f"{where}: {shared} is missing or cannot be written"
    needs, has = (f"{size / GIGABYTE:.1f} GB" for size in (needed, max(room, 0)))
    return f"{where}: {KEPT} versions take {needs}, and {shared} has room for {has}"


def _remove_abandoned(shared: Path) -> None:
    """Remove this user's folders with no lock holder: their training was killed."""
    for folder in shared.glob(f"{PREFIX}*"):
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            continue
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
