"""A file-based Celery broker for a single machine, with nothing to install.

kombu's filesystem transport opens a message under its final name before writing it, so that a
reader can take an empty file, which crashes a Celery worker. Here a message appears atomically
and belongs to the reader that removes it. A message taken by a worker that is then killed is
lost; the dispatcher sends another.
"""

import logging
import secrets
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

logger = logging.getLogger(__name__)

SCHEME = "temper-files"
LOOK_UP_SECONDS = 0.25
ABANDONED_SECONDS = 60.0
"""A message still incomplete after this time was abandoned by a killed writer."""


class Channel(filesystem.Channel):
    """One connection to the folder of messages."""

    def _queue_bind(self, *_: Any) -> None:
        """Keep no binding table: wake-ups are addressed to their queue directly."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        """Add a message; names sort by time."""
        name = f"{time.time_ns():020d}-{secrets.token_hex(6)}.{queue}.msg"
        folder = Path(self.data_folder_out)
        partial = folder / f"{name}.partial"
        try:
            partial.write_text(dumps(payload))
        except FileNotFoundError:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_text(dumps(payload))
        partial.rename(folder / name)

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's
        """Take the oldest message of ``queue``, or raise `Empty`."""
        try:
            messages = sorted(Path(self.data_folder_in).iterdir())
        except FileNotFoundError:
            raise Empty from None  # the dispatcher creates the folder again
        for path in messages:
            if path.name.partition(".")[2] != f"{queue}.msg":
                continue
            try:
                payload = path.read_bytes()
                path.unlink()
            except FileNotFoundError:
                continue  # another reader took it
            try:
                return loads(payload)
            except ValueError:  # a power cut can leave an empty file under the final name
                logger.warning("dropped the damaged message %s", path.name)
        raise Empty


def remove_abandoned(folder: Path) -> None:
    """Remove incomplete messages of killed writers."""
    for path in folder.glob("*.partial"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                path.unlink()


class Transport(filesystem.Transport):
    """The transport of ``temper-files://`` broker URLs."""

    Channel = Channel
    driver_type = driver_name = SCHEME

    def drain_events(  # type: ignore[override]
        self, connection: Any, timeout: float | None = None
    ) -> None:
        """Wait for a message, briefly: a worker checks for shutdown between waits."""
        super().drain_events(connection, timeout=min(timeout or LOOK_UP_SECONDS, LOOK_UP_SECONDS))


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"
