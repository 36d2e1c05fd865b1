"""Lets a Python process of a job show where it hangs; Python imports this module at its start.

On the signal `STACKS_SIGNAL` the process appends the stacks of its threads to the file that
`STACKS_FILE` names. The handler is written in C and needs neither the interpreter's lock nor
ptrace, so that it also answers for a thread that hangs in a collective or a driver, and in
containers.

Only the standard library is imported here, because every runtime imports this module.
"""

import faulthandler
import os
import signal

STACKS_FILE = "TEMPER_STACKS_FILE"
STACKS_SIGNAL = signal.SIGRTMAX - 2


def _register() -> None:
    path = os.environ.get(STACKS_FILE)
    if not path:
        return
    try:
        file = open(path, "ab")  # noqa: SIM115 - the handler needs it until the process ends
    except OSError:
        return
    faulthandler.register(STACKS_SIGNAL, file=file, all_threads=True)


_register()
