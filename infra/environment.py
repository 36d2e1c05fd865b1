"""Creates the core environment, ``.venv``: ``python3 infra/environment.py [--dev]``.

Needs only Python. This file also parses with a Python that is too old, so that
it can find a newer one or report that there is none.
"""

import os
import shutil
import subprocess
import sys

CANDIDATES = ("python3.11", "python3.12", "python3.13", "python3.14")
IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"
PROBE_SECONDS = 30


def use_newer_python() -> None:
    """Re-execute with a Python that is new enough; exit with a message if there is none."""
    for name in CANDIDATES:
        path = shutil.which(name)
        # A version manager's shim may exist without the version behind it.
        if path and subprocess.call([path, "-c", IS_NEW_ENOUGH], timeout=PROBE_SECONDS) == 0:
            os.execv(path, [path, *sys.argv])  # noqa: S606 - no shell is wanted
    sys.exit(
        f"Temper needs Python 3.11 or newer, and {sys.executable} is older. Install a newer one, "
        "or say where it is: make demo PYTHON=/path/to/python3.11"
    )


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - any Python may start this
        use_newer_python()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - any Python may start this
    from infra.core.command import main

    sys.exit(main())
