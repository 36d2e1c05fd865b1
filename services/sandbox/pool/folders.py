"""The folder of a pool, in which its zygotes build what programs see."""

import os
import subprocess
import tempfile
from pathlib import Path

_PREFIX = "temper-sandbox-"


def make_folder() -> Path:
    """Make one for this process; those that ended processes left behind are removed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove_folder(folder)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    folder.chmod(0o755)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove it with all that is in it, as far as that can be."""
    # Programs can nest folders deeper than Python's own way to do this can follow.
    command = ["/bin/rm", "-rf", "--one-file-system", "--", str(folder)]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
