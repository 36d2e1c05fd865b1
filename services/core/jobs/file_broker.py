"""A Celery broker made of files, for one machine with nothing to install.

kombu's own filesystem transport opens a message under its final name before it has written it, so
a reader can take an empty file, which ends a Celery worker. Here a message appears complete or
not at all, and belongs to whoever removes it. A message that a killed worker had taken is gone;
the dispatcher sends another.
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
"""Nobody needs so long to write a message: its writer was killed."""


class Channel(filesystem.Channel):
    """One connection to the folder of messages."""

    def _queue_bind(self, *_: Any) -> None:
        """Keep no table of bindings: wake-ups are addressed to their queue directly."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        """Add a message; names sort by time."""
        name = f"{time.time_ns():020d}-{secrets.token_hex(6)}.{queue}.msg"
        folder = Path(self.data_folder_out)
        partial = folder / f"{name}.partial"
        partial.write_text(dumps(payload))
        partial.rename(folder / name)

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's
        """Take the oldest message of ``queue``, or raise `Empty`."""
        for path in sorted(Path(self.data_folder_in).iterdir()):
            if path.name.partition(".")[2] != f"{queue}.msg":
                continue
            try:
                payload = path.read_bytes()
                path.unlink()
            except FileNotFoundError:
                continue  # somebody else took it
            try:
                return loads(payload)
            except ValueError:  # a power cut can leave an empty file under the final name
                logger.warning("dropped the damaged message %s", path.name)
        raise Empty


def remove_abandoned(folder: Path) -> None:
    """Drop the halves of messages that killed writers left."""
    for path in folder.glob("*.partial"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                path.unlink()


class Transport(filesystem.Transport):
    """The transport behind broker URLs that begin with ``temper-files://``."""

    Channel = Channel
    driver_type = driver_name = SCHEME

    def drain_events(  # type: ignore[override]
        self, connection: Any, timeout: float | None = None
    ) -> None:
        """Wait for a message; return often, because a worker looks for its end between waits."""
        super().drain_events(connection, timeout=min(timeout or LOOK_UP_SECONDS, LOOK_UP_SECONDS))


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"
