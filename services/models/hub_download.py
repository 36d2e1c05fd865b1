"""Downloads of hub repositories whose bytes are counted.

The hub's library reports bytes to progress bars only, and knows a snapshot's total only once its
last file has begun. So the files are listed first, and each is then fetched with a bar that counts.
A broken connection is resumed by the library where it broke; after a kill the files that were
complete are kept, and only the others are fetched again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from huggingface_hub import DryRunFileInfo, constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import DryRunError
from huggingface_hub.file_download import repo_folder_name

# The library waits for 10 MB before it counts and writes them: minutes on a slow line.
constants.DOWNLOAD_CHUNK_SIZE = 1 << 18

_SUBFOLDERS = "*/*"
CONNECTIONS = 4
"""Files that are fetched at a time."""
TICK_SECONDS = 1.0
WINDOW_SECONDS = 10.0
"""What the rate is a mean over."""
ABANDONED_SECONDS = 3600.0
"""After this time without a write, a part of a file was left by a process that was killed."""


@dataclass(frozen=True)
class Transfer:
    """The state of a download in bytes: what is here, what there is (None while unknown), what
    came per second over the last ten seconds, and the seconds that the rest takes at that rate
    (None while nothing comes)."""

    done: int
    total: int | None
    per_second: float | None
    eta_seconds: float | None


class DownloadStopped(Exception):
    """The download was stopped."""


class Meter:
    """Counts the bytes of a download; tells them every second while they change, and at the end of
    its block."""

    def __init__(
        self, tell: Callable[[Transfer], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._done = 0
        self._received = 0
        self._total: int | None = None
        self._samples = deque([(clock(), 0)])
        self._told: Transfer | None = None
        self._stopped = False
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._ticker.join()
        self.tell()

    def expect(self, total: int | None) -> None:
        """Set the total."""
        with self._lock:
            self._total = total

    def add(self, size: int) -> None:
        """Count bytes that were here already."""
        with self._lock:
            self._done += size

    def stop(self) -> None:
        """Have the download end with `DownloadStopped` before its next bytes."""
        self._stopped = True

    def receive(self, size: int) -> None:
        """Count bytes that came; negative where a server begins a file again."""
        if self._stopped:
            raise DownloadStopped
        with self._lock:
            self._done += size
            self._received += size

    def tell(self) -> None:
        """Tell the state, if it is another than last."""
        with self._lock:
            now = self._state()
        if now != self._told:
            self._told = now
            self._tell(now)

    def _state(self) -> Transfer:
        now = self._clock()
        self._samples.append((now, self._received))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW_SECONDS:
            self._samples.popleft()
        begun, before = self._samples[0]
        rate = max(0.0, self._received - before) / (now - begun) if now > begun else 0.0
        total = None if self._total is None else max(self._total, self._done)
        if total is not None and self._done == total:
            return Transfer(self._done, total, None, None)
        left = (total - self._done) / rate if total is not None and rate > 0 else None
        return Transfer(self._done, total, round(rate, 1), None if left is None else round(left, 1))

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            self.tell()


class Snapshot:
    """The files of a repository at a revision (a commit, branch or tag; None: its main branch) that
    match some patterns, none of a subfolder. Without a connection to the hub they are those that
    are cached."""

    def __init__(self, name: str, revision: str | None, patterns: Sequence[str]) -> None:
        self._name = name
        self._revision = revision
        self._files = self._listed(patterns)
        if self._files:
            self._revision = self._files[0].commit_hash

    def size(self, patterns: Sequence[str]) -> int | None:
        """The bytes of the files that match a pattern; None while the hub cannot be reached."""
        if self._files is None:
            return None
        return sum(file.file_size or 0 for file in _matching(self._files, patterns))

    def fetch(self, patterns: Sequence[str], meter: Meter) -> Path:
        """The folder with the files that match a pattern, downloaded unless they are cached; raises
        what the hub's library does."""
        self._remove_abandoned()
        files = _matching(self._files or (), patterns)
        meter.add(sum(file.file_size or 0 for file in files if file.is_cached))
        self._fetch_all([file for file in files if not file.is_cached], meter)
        # All of them are cached: this names the folder, or says why there is none.
        folder = snapshot_download(
            self._name,
            revision=self._revision,
            allow_patterns=list(patterns),
            ignore_patterns=[_SUBFOLDERS],
        )
        return Path(folder)

    def _listed(self, patterns: Sequence[str]) -> list[DryRunFileInfo] | None:
        try:
            return snapshot_download(
                self._name,
                revision=self._revision,
                allow_patterns=list(patterns),
                ignore_patterns=[_SUBFOLDERS],
                dry_run=True,
            )
        except DryRunError:
            return None

    def _fetch_all(self, files: Sequence[DryRunFileInfo], meter: Meter) -> None:
        bar = _bar(meter)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            asked = [
                pool.submit(
                    hf_hub_download,
                    self._name,
                    file.filename,
                    revision=file.commit_hash,
                    tqdm_class=bar,
                )
                for file in files
            ]
            try:
                for each in asked:
                    each.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _remove_abandoned(self) -> None:
        """Remove the parts of files that killed downloads left: each has a name of its own, so that
        none can be resumed."""
        folder = repo_folder_name(repo_id=self._name, repo_type="model")
        for part in (Path(constants.HF_HUB_CACHE) / folder / "blobs").glob("*.incomplete"):
            try:
                if time.time() - part.stat().st_mtime > ABANDONED_SECONDS:
                    part.unlink()
            except FileNotFoundError:
                continue  # it was completed meanwhile


def _matching(files: Iterable[DryRunFileInfo], patterns: Sequence[str]) -> list[DryRunFileInfo]:
    return [
        file for file in files if any(fnmatchcase(file.filename, pattern) for pattern in patterns)
    ]


def _bar(meter: Meter) -> type[Any]:
    """The class of a progress bar that counts and shows nothing.

    Of a bar with `update_transfer` the library asks for no second one for what Xet receives before
    it is written.
    """

    class Bar:
        def __init__(self, *_: object, total: int | None = None, initial: int = 0, **__: object):
            self.total = total
            self.n = initial
            meter.add(initial)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return

        def update(self, size: float | None = 1) -> None:
            self.n += int(size or 0)
            meter.receive(int(size or 0))

        def set_postfix_str(self, *_: object, **__: object) -> None:
            return

        update_transfer = set_postfix_str
        set_transfer_postfix_str = set_postfix_str

        def refresh(self) -> None:
            return

        def close(self) -> None:
            return

    return Bar
