"""Open indexes by name, each in its newest servable version."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from services.contracts.errors import ConfigurationError, TemperError, Unavailable
from services.contracts.retrieval.indexes import IndexSummary, checked_name
from services.retrieval.engine.served import ServedIndex
from services.retrieval.store.errors import IndexUnusable, UnknownIndex
from services.retrieval.store.index import Index
from services.retrieval.store.integrity import check_all_files
from services.retrieval.store.layout import IndexFolder
from services.retrieval.store.store import IndexStore, OpenedIndex, open_path

logger = logging.getLogger(__name__)


class IndexLocator:
    """Locates the indexes of a store, and a default index that may be outside it.

    ``default`` is a name or a folder; the attribute is always the name. Raises `ConfigurationError`
    when it is neither.
    """

    def __init__(self, store: IndexStore, default: str) -> None:
        self._store = store
        self._elsewhere = _folder_of(store, default)
        self._damaged: dict[str, dict[str, str]] = {}  # reasons by version, by name
        self.default = default if self._elsewhere is None else self._elsewhere.name

    def names(self) -> list[str]:
        """All index names, including the default one wherever it is stored."""
        names = set(self._store.names())
        return sorted(names | {self.default} if self._elsewhere is not None else names)

    def mark(self, name: str) -> str | None:
        """Identifies the version to serve; changes on every switch and when an index is recreated.
        None when there is no such index."""
        folder = self._folder(name)
        version = folder.served
        try:
            current = folder.current.stat()
        except FileNotFoundError:
            return None
        return f"{version} {current.st_ino} {current.st_mtime_ns}"

    def open(self, name: str, device: str) -> OpenedIndex:
        """Open the newest good version; raises `UnknownIndex` or `IndexUnusable`."""
        folder = self._folder(name)
        if folder.served is None:
            raise UnknownIndex(f"there is no index {name!r}{_begun(folder)}", param="index")
        return open_path(folder.path, device=device, damaged=self._damaged.get(name))

    def mark_damaged(self, name: str, version: str, reason: str) -> None:
        """Never open this version again."""
        self._damaged.setdefault(name, {})[version] = reason

    def summary(self, name: str) -> IndexSummary:
        """Summarize an index without keeping it open; raises `UnknownIndex`."""
        try:
            opened = self.open(name, "cpu")
        except IndexUnusable as error:
            version = self._folder(name).served or ""
            return IndexSummary.unusable(name, version, error.message)
        try:
            summary = opened.index.summary()
        finally:
            opened.index.close()
        problem = opened.problem or summary.problem
        return summary.model_copy(update={"name": name, "problem": problem})

    def drop(self, name: str, timeout: float) -> None:
        """Delete an index of the store; raises `UnknownIndex` or `IndexBusy`."""
        self._store.drop(name, timeout)

    @property
    def default_was_dropped(self) -> bool:
        """Whether the default index is missing because it was deleted while it was served."""
        return self._elsewhere is None and self._store.was_dropped(self.default)

    def note_default(self, *, is_dropped: bool) -> None:
        """Record for later processes whether the default index was deleted."""
        if self._elsewhere is not None:
            return
        try:
            if is_dropped:
                self._store.remember_dropped(self.default)
            else:
                self._store.forget_dropped(self.default)
        except OSError as error:  # such as a folder that is mounted read-only
            logger.warning("cannot record that the default index was deleted: %s", error)

    def _folder(self, name: str) -> IndexFolder:
        if self._elsewhere is not None and name == self.default:
            return IndexFolder(self._elsewhere)
        try:
            return IndexFolder(self._store.root / checked_name(name))
        except ValueError:
            raise UnknownIndex(f"there is no index {name!r:.100}", param="index") from None


def _begun(folder: IndexFolder) -> str:
    """What to do about an index whose first build has begun and was not published."""
    if not folder.building.path.is_dir():
        return ""
    return " yet: its first build has not ended (temper ps --kind indexing)"


def _folder_of(store: IndexStore, default: str) -> Path | None:
    """The folder of the default index, if given by path instead of by name."""
    folder = Path(default).expanduser().resolve()
    try:
        is_there = store.version(checked_name(default)) is not None
    except ValueError:
        if folder.is_dir():
            return folder
        raise ConfigurationError(
            f"{default!r} is neither the name of an index nor the folder of one"
        ) from None
    return folder if folder.is_dir() and not is_there else None


MAX_OPEN = 64
LOCK_SECONDS = 5.0
"""How long dropping an index waits for a running build or change."""
POLL_SECONDS = 1.0
"""Polling interval for new versions."""


class IndexBeingBuilt(Unavailable):
    """The default index is still being built."""

    code = "index_being_built"


class Catalog:
    """Opens indexes on demand, follows their versions, and replaces damaged ones. ``is_building``
    returns whether the default index is being built.
    """

    def __init__(
        self,
        locator: IndexLocator,
        device: str,
        serve: Callable[[Index], ServedIndex],
        is_building: Callable[[], bool],
    ) -> None:
        self.default = locator.default
        self.default_was_dropped = locator.default_was_dropped
        self._locator = locator
        self._device = device
        self._serve = serve
        self._is_building = is_building
        self._open: dict[str, ServedIndex] = {}
        self._seen: dict[str, str | None] = {}  # marks of the versions last examined
        self._lock = asyncio.Lock()
        self._checks: set[asyncio.Task[None]] = set()

    @property
    def opened(self) -> int:
        """Number of open indexes."""
        return len(self._open)

    def get_open(self, name: str | None) -> ServedIndex | None:
        """An index if it is already open."""
        return self._open.get(name or self.default)

    async def get(self, name: str | None) -> ServedIndex:
        """Get an index, opening it if needed; None is the default one.

        Concurrent opens are serialized, so each index is opened once (single-flight). Raises
        `UnknownIndex`, `IndexUnusable`, or `IndexBeingBuilt`.
        """
        served = self.get_open(name)
        if served is not None:
            return served
        wanted = name or self.default
        async with self._lock:
            served = self._open.get(wanted)
            return served if served is not None else await self._opened(wanted)

    async def drop(self, name: str) -> None:
        """Delete an index; raises `UnknownIndex` or `IndexBusy`."""
        await asyncio.to_thread(self._locator.drop, name, LOCK_SECONDS)
        self._dropped(name)

    async def summaries(self) -> list[IndexSummary]:
        """Summaries of all indexes, by name."""
        names = await asyncio.to_thread(self._locator.names)
        found = [await self._summary_or_none(name) for name in names]
        return [summary for summary in found if summary is not None]

    async def summary(self, name: str) -> IndexSummary:
        """One index; raises `UnknownIndex` or `IndexUnusable`."""
        served = self._open.get(name)
        if served is None:
            return await asyncio.to_thread(self._locator.summary, name)
        with served.used():
            summary = await asyncio.to_thread(served.index.summary)
        problem = served.problem or summary.problem
        return summary.model_copy(update={"name": name, "problem": problem})

    def check(self, name: str | None, served: ServedIndex) -> None:
        """Verify all files of an open index in the background, and replace it if it is damaged."""
        task = asyncio.create_task(self._check(name or self.default, served))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Within the block, switch to newer versions and open the default index."""
        following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            for task in (following, *self._checks):
                task.cancel()
            await asyncio.gather(following, *self._checks, return_exceptions=True)
            for name in tuple(self._open):
                self._forget(name)

    async def _follow(self) -> None:
        while True:
            try:
                if self.default not in self._open:
                    await self._try_default()
                for name in tuple(self._open):
                    await self._check_version(name)
            except Exception:  # keep following newer versions after any error
                logger.exception("polling the indexes failed")
            await asyncio.sleep(POLL_SECONDS)

    async def _try_default(self) -> None:
        try:
            await self.get(None)
        except TemperError as error:
            if self._seen.get(self.default, "") != error.message:
                self._seen[self.default] = error.message
                logger.warning("the default index cannot be served: %s", error.message)

    async def _check_version(self, name: str) -> None:
        """Switch to a newer version; keep the old one if the new one is broken."""
        mark = await asyncio.to_thread(self._locator.mark, name)
        if mark == self._seen.get(name):
            return
        if mark is None:
            self._dropped(name)
            return
        async with self._lock:
            try:
                await self._opened(name)
            except TemperError as error:
                self._seen[name] = mark
                if name in self._open:
                    self._open[name].problem = error.message
                logger.error("index %s stays at its old version: %s", name, error.message)

    async def _opened(self, name: str) -> ServedIndex:
        try:
            mark = await asyncio.to_thread(self._locator.mark, name)
            opened = await asyncio.to_thread(self._locator.open, name, self._device)
        except UnknownIndex:
            if name == self.default and self._is_building():
                raise IndexBeingBuilt(f"index {name!r} is being built") from None
            raise
        self._make_room(name)
        return self._swap_in(name, mark, opened)

    def _swap_in(self, name: str, mark: str | None, opened: OpenedIndex) -> ServedIndex:
        served = self._serve(opened.index)
        served.problem = opened.problem
        previous = self._open.get(name)
        self._open[name] = served
        self._seen[name] = mark
        if name == self.default and self.default_was_dropped:
            self.default_was_dropped = False
            self._locator.note_default(is_dropped=False)
        if previous is not None:
            previous.retire()
        if opened.problem:
            logger.error("index %s: %s", name, opened.problem)
        logger.info("serving version %s of index %s", opened.version, name)
        self.check(name, served)
        return served

    async def _check(self, name: str, served: ServedIndex) -> None:
        index = served.index
        try:
            with served.used():
                await asyncio.to_thread(check_all_files, index.folder, index.manifest)
        except IndexUnusable as error:
            async with self._lock:
                if self._open.get(name) is served:
                    logger.error("index %s: %s", name, error.message)
                    self._locator.mark_damaged(name, index.version, error.message)
                    await self._replace_damaged(name)

    async def _replace_damaged(self, name: str) -> None:
        try:
            await self._opened(name)
        except TemperError as error:
            logger.error("index %s cannot be served any longer: %s", name, error.message)
            self._forget(name)

    def _make_room(self, name: str) -> None:
        if len(self._open) >= MAX_OPEN and name not in self._open:
            self._forget(next(other for other in self._open if other != self.default))

    def _dropped(self, name: str) -> None:
        if name == self.default:
            self.default_was_dropped = True
            self._locator.note_default(is_dropped=True)
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._seen.pop(name, None)
        served = self._open.pop(name, None)
        if served is not None:
            served.retire()

    async def _summary_or_none(self, name: str) -> IndexSummary | None:
        try:
            return await self.summary(name)
        except UnknownIndex:  # dropped concurrently
            return None
