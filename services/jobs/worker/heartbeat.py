"""The file by which a health probe sees that a worker is alive, without asking the database."""

import logging
from pathlib import Path

logger = logging.getLogger(__name__)


def touch_heartbeat(path: Path | None) -> None:
    """Touch the file, if there is one, after the database has the heartbeat."""
    if path is None:
        return
    try:
        path.touch()
    except OSError as error:
        logger.warning("health probes will fail: cannot touch the heartbeat file: %s", error)
