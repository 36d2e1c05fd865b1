"""Exiting a training process, which may be one of several."""

import os
import sys
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """Exit with this status. One of several processes skips the interpreter's finalization, in
    which Gloo threads occasionally abort even though the process group is destroyed: the launcher
    would take a finished process for a failed one and kill the others before they have saved.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
