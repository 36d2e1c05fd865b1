"""A demonstration as a program."""

import signal
import sys
import time
from collections.abc import Callable

from temper.cli.exit_codes import ExitCode
from temper.cli.main import describe
from temper.cli.output import Output
from temper.cli.units import duration
from temper.client.errors import ClientError
from temper.settings import ClientSettings, load_settings
from temper.stack.signals import STOP_SIGNALS


def exit_with(run: Callable[[ClientSettings, Output], bool]) -> None:
    """Run a demonstration and exit: with 0 if the model learned its task."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    out = Output(as_json=False)
    begun = time.monotonic()
    try:
        has_learned = run(load_settings(), out)
    except KeyboardInterrupt:
        out.note("interrupted")
        sys.exit(ExitCode.INTERRUPTED)
    except ClientError as error:
        out.note(f"temper: error: {describe(error)}")
        sys.exit(ExitCode.FAILED)
    out.note(f"done in {duration(time.monotonic() - begun)}")
    sys.exit(ExitCode.OK if has_learned else ExitCode.FAILED)
