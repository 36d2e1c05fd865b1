"""Being asked to stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """Hand out an event that Ctrl-C, TERM or a closed terminal sets instead of ending us."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
