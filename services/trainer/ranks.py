"""The end of a training process, which may be one of several."""

import os
import sys
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process with the exit status.

    One of several skips the interpreter's finalization, in which threads of Gloo abort now and
    then, though the process group is destroyed. The launcher would take a finished process for a
    failed one, and end the others before they have saved.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
