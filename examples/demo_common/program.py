"""A demonstration as a program."""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from examples.demo_common.printer import Printer, duration
from examples.demo_common.setup import STOP_SIGNALS, home_folder
from temper.client import ClientError

INTERRUPTED = 130


def exit_with(run: Callable[[Path, Printer], bool]) -> None:
    """Run a demonstration in the home folder and exit: with 0 if the model learned its task."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    out = Printer()
    begun = time.monotonic()
    try:
        has_learned = run(home_folder(), out)
    except KeyboardInterrupt:
        out.note("interrupted")
        sys.exit(INTERRUPTED)
    except ClientError as error:
        out.note(f"error: {error.message} ({error.code})")
        sys.exit(1)
    out.note(f"done in {duration(time.monotonic() - begun)}")
    sys.exit(0 if has_learned else 1)
