"""Logging of every process: one line per record on standard error, optionally JSON."""

import logging
import sys

from pythonjsonlogger.json import JsonFormatter


def configure_logging(level: str, as_json: bool) -> None:
    """Send all records of ``level`` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    if as_json:
        handler.setFormatter(JsonFormatter("{asctime}{levelname}{name}{message}", style="{"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # A line for every request and every wake-up would hide what matters.
    for noisy in ("httpx", "celery.worker.strategy", "celery.app.trace", "alembic"):
        logging.getLogger(noisy).setLevel("WARNING")
