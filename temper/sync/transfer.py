"""Upload and download of changed files; an interrupted transfer resumes."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from temper.sync.store import Digests, LogStore

RECORDED_EVERY = 50
"""Files between manifest writes: after a kill, at most this many are sent again."""


@dataclass
class Transferred:
    """The counts of a transfer."""

    files: int = 0
    bytes: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class LogFile:
    """A file to send: its path in the store, and a reader of its content."""

    name: str
    read: Callable[[], bytes]


def send(store: LogStore, files: Iterator[LogFile]) -> Transferred:
    """Send files that are new or changed."""
    done = Transferred()
    known, sizes = store.digests(), store.files()
    unrecorded = 0
    try:
        for file in files:
            content = file.read()
            digest = hashlib.sha256(content).hexdigest()
            if known.get(file.name) == digest and sizes.get(file.name) == len(content):
                done.unchanged += 1
                continue
            store.write(file.name, content)
            known[file.name] = digest
            done.files, done.bytes = done.files + 1, done.bytes + len(content)
            unrecorded += 1
            if unrecorded == RECORDED_EVERY:
                store.write_digests(known)
                unrecorded = 0
    finally:
        if unrecorded:
            store.write_digests(known)
    return done


def fetch(store: LogStore, folder: Path) -> Transferred:
    """Download the store into a folder; other files in the folder stay."""
    done = Transferred()
    known = store.digests()
    for name, size in sorted(store.files().items()):
        target = folder / name
        if _is_current(target, size, known, name):
            done.unchanged += 1
            continue
        content = store.read(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.partial")
        partial.write_bytes(content)
        partial.replace(target)
        done.files, done.bytes = done.files + 1, done.bytes + len(content)
    return done


def _is_current(path: Path, size: int, known: Digests, name: str) -> bool:
    if not path.is_file() or path.stat().st_size != size or name not in known:
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == known[name]
