"""How processes hear that there is something new, without asking for it again and again.

Within a host a process that adds something rings the bells of a folder: named pipes. A ring that
comes before the wait is not lost. Processes of other hosts hear nothing, so who waits looks again
after a while anyway. `Changes` waits for what other connections commit to a database: SQLite has
such bells beside its file, PostgreSQL notifies by itself.
"""

import errno
import logging
import os
import secrets
import select
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import URL, event, text
from sqlalchemy.orm import Session

from services.core.db.engine import Database

logger = logging.getLogger(__name__)

_SUFFIX = ".bell"


class Doorbell:
    """A bell of this process in ``folder``; raises OSError where there can be no named pipes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(4)}.{_host()}{_SUFFIX}"
        self._path = folder / name
        os.mkfifo(self._path, 0o600)
        # Also open for writing: without a writer, a pipe is always readable.
        self._pipe = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return its pipe, which is readable after a ring."""
        return self._pipe

    def heard(self) -> bool:
        """Whether it was rung since the last call."""
        try:
            return bool(os.read(self._pipe, 1 << 16))
        except BlockingIOError:
            return False

    def wait(self, seconds: float) -> None:
        """Wait until it is rung, for so many seconds at most."""
        poll = select.poll()  # its descriptor may be above 1023
        poll.register(self._pipe, select.POLLIN)
        if poll.poll(1000 * seconds):
            self.heard()

    def close(self) -> None:
        """Remove it."""
        self._path.unlink(missing_ok=True)
        os.close(self._pipe)


def ring(folder: Path) -> None:
    """Ring every bell of this host in ``folder``, and remove those of killed processes."""
    for path in folder.glob(f"*.{_host()}{_SUFFIX}"):
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody has it open
                path.unlink(missing_ok=True)
            continue
        with suppress(BlockingIOError):  # it is ringing
            os.write(pipe, b"!")
        os.close(pipe)


@cache
def _host() -> str:
    """The boot of this host: its containers share it, whatever their names."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


CHANNEL = "temper_changes"
BELLS = "bells"
"""Folder of doorbells, beside a database of SQLite."""
BLIND_SECONDS = 0.5
"""How often there may be a change, while none can be heard."""

_ANNOUNCED = "temper_announced"


def announce_change(session: Session) -> None:
    """Tell every `Changes` when this transaction is committed."""
    engine = session.get_bind().engine
    if engine.dialect.name == "postgresql":
        session.execute(text(f"NOTIFY {CHANNEL}"))
    elif (bells := _bells(engine.url)) is not None and _ANNOUNCED not in session.info:

        def committed(session: Session) -> None:
            del session.info[_ANNOUNCED]
            with suppress(OSError):  # those who wait look again after a while
                ring(bells)

        session.info[_ANNOUNCED] = True
        event.listen(session, "after_commit", committed, once=True)


class Changes:
    """Hears of announced changes; for one thread, which others may interrupt."""

    def __init__(self, database: Database) -> None:
        self._url = database.engine.url
        self._source: _Source | None = None
        self._interruption, self._interrupting = socket.socketpair()
        for end in (self._interruption, self._interrupting):
            end.setblocking(False)

    def wait(self, seconds: float) -> bool:
        """Wait for a change or an `interrupt`, for so many seconds at most; whether there was one.

        What came before the first call counts as a change, and so does what cannot be heard.
        """
        if self._source is None:
            self._source = self._try_to_open()
            if self._source is not None:
                return True  # it hears what comes from now on
        poll = select.poll()  # its descriptors may be above 1023
        poll.register(self._interruption, select.POLLIN)
        try:
            if self._source is not None:
                poll.register(self._source, select.POLLIN)
        except Exception as error:
            self._lose(error)
        if self._source is None:
            seconds = min(seconds, BLIND_SECONDS)
        ready = [descriptor for descriptor, _ in poll.poll(1000 * max(0.0, seconds))]
        interrupted = self._interruption.fileno() in ready
        if interrupted:
            self._interruption.recv(1 << 12)
        if self._source is None:
            return True
        is_silent = set(ready) <= {self._interruption.fileno()}
        return (not is_silent and self._has_heard(self._source)) or interrupted

    def interrupt(self) -> None:
        """End the present or the next wait; for other threads and for signal handlers."""
        with suppress(OSError):  # one is pending, or nobody waits any more
            self._interrupting.send(b"!")

    def close(self) -> None:
        """Stop hearing; no thread waits then."""
        self._close_source()
        self._interruption.close()
        self._interrupting.close()

    def _try_to_open(self) -> "_Source | None":
        try:
            return self._open()
        except Exception as error:
            logger.debug("the database's changes cannot be followed: %s", error)
            return None

    def _open(self) -> "_Source | None":
        if self._url.get_backend_name() == "postgresql":
            plain = self._url.set(drivername="postgresql")
            return _Notifications(plain.render_as_string(hide_password=False))
        bells = _bells(self._url)
        return None if bells is None else Doorbell(bells)

    def _has_heard(self, source: "_Source") -> bool:
        try:
            return source.heard()
        except Exception as error:
            self._lose(error)
            return True

    def _lose(self, error: Exception) -> None:
        logger.debug("the database's changes cannot be followed any more: %s", error)
        self._close_source()

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None


class _Source(Protocol):
    def fileno(self) -> int: ...

    def heard(self) -> bool: ...

    def close(self) -> None: ...


class _Notifications:
    def __init__(self, address: str) -> None:
        import psycopg  # noqa: PLC0415 - processes with SQLite need not load it

        self._connection: psycopg.Connection[Any] = psycopg.connect(
            address, autocommit=True, connect_timeout=10
        )
        self._connection.execute(f"LISTEN {CHANNEL}")

    def fileno(self) -> int:
        return self._connection.fileno()

    def heard(self) -> bool:
        return bool(list(self._connection.notifies(timeout=0)))

    def close(self) -> None:
        self._connection.close()


def _bells(url: URL) -> Path | None:
    """The folder of the doorbells of a database that is a file."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database).with_name(BELLS)
