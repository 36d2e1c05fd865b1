"""The real sandbox for the stand-in images: Python is its only language.

Its code and packages are this checkout's and this environment's. Programs run in the interpreter of
the image, without the packages of the sandbox's runtime.
"""

import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from tests.support.processes import REPOSITORY

APP = "/opt/temper/app"
PACKAGES = "/opt/temper/packages"
VARIABLES = {
    "PYTHONPATH": f"{APP}:{PACKAGES}",
    "TEMPER_RUNTIMES": "/opt/temper/runtimes",
    "TEMPER_SANDBOX_PREPARED": "/opt/temper/prepared",
}
COMMAND = ("python", "-m", "services.sandbox", "--host", "0.0.0.0", "--port", "8081")
ROOMS = ("__init__.py", "contracts", "core", "sandbox")
PROGRAMS = (
    *(Path("/bin/rm"), Path("/bin/true")),  # to clean up, and to see whether programs run
    Path("/usr/lib/x86_64-linux-gnu/libseccomp.so.2"),
)
RUNTIME = "opt/temper/runtimes/sandbox"
STAMP = '{"version": "0", "accelerator": "cpu"}'


def files() -> Iterator[tuple[Path, str]]:
    """Each file and folder that the sandbox needs beside Python, and its path in the image."""
    for room in ROOMS:
        yield REPOSITORY / "services" / room, f"{APP}/services/{room}"
    for program in PROGRAMS:
        yield program.resolve(), str(program)
    for path, name in _packages():
        yield path, f"{PACKAGES}/{name}"


def native_files() -> Iterator[Path]:
    """Those that need shared libraries."""
    yield from PROGRAMS
    yield from (path for path, _ in _packages() if path.suffix == ".so")


def folders() -> Iterator[tarfile.TarInfo]:
    """Empty folders, and the runtime, which is the image's own Python."""
    prepared = tarfile.TarInfo(VARIABLES["TEMPER_SANDBOX_PREPARED"].lstrip("/"))
    prepared.type, prepared.mode = tarfile.DIRTYPE, 0o755
    yield prepared
    python = tarfile.TarInfo(f"{RUNTIME}/bin/python")
    python.type, python.linkname = tarfile.SYMTYPE, "/usr/local/bin/python"
    yield python


def _packages() -> Iterator[tuple[Path, str]]:
    lock = (REPOSITORY / "infra" / "requirements" / "sandbox.txt").read_text()
    for name in re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE):
        for file in distribution(name).files or ():
            if not str(file).startswith(".."):  # commands
                yield Path(str(file.locate())), str(file)
