"""The local stack that a demonstration runs on."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from temper.cli.gateway import default_port
from temper.cli.output import Output
from temper.settings import ClientSettings
from temper.stack.detached import end_stack, start_detached
from temper.stack.ports import any_free, is_free
from temper.stack.services import Service
from temper.stack.signals import STOP_SIGNALS
from temper.stack.state import StackFile

START_SECONDS = 120.0


@contextmanager
def local_stack(settings: ClientSettings, out: Output) -> Iterator[str]:
    """Hand out the address of the stack that runs, or of one that ends with the block."""
    running = StackFile(settings.home).running()
    if running is not None:
        out.note(f"  using the stack that runs at {running.url}; it stays up")
        yield running.url
        return
    port = default_port(settings)
    if not is_free(port):
        taken, port = port, any_free()
        out.note(f"  port {taken} is taken; using {port}")
    keep = os.environ.get("KEEP") == "1"
    try:
        stop = threading.Event()  # Ctrl-C interrupts us instead
        ports = {Service.API: port}
        state = start_detached(settings.home, ports, START_SECONDS, settings.grace_seconds, stop)
        url = state.url if state is not None else ""
        out.note(f"  ready at {url}")
        yield url
    finally:
        if keep:
            out.note("KEEP=1: what runs of the stack stays up; temper down ends it")
        else:
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)  # nothing may be left behind
            out.note("ending the stack")
            end_stack(settings.home, settings.grace_seconds)
