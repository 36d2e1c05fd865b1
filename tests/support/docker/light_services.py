"""The real sandbox and the real retrieval service for the stand-in images.

Their code and packages are this checkout's and this environment's. The sandbox's only language is
Python: programs run in the interpreter of the image, without the packages of its runtime. Retrieval
has no encoder.
"""

import re
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from tests.support.processes import REPOSITORY

APP = "/opt/temper/app"
PACKAGES = "/opt/temper/packages"
VARIABLES = {
    "PYTHONPATH": f"{APP}:{PACKAGES}",
    "TEMPER_HOME": "/var/lib/temper",
    "TEMPER_RUNTIMES": "/opt/temper/runtimes",
    "TEMPER_SANDBOX_PREPARED": "/opt/temper/prepared",
}
COMMANDS = {
    "temper-sandbox": ("python", "-m", "services.sandbox", "--host", "0.0.0.0", "--port", "8081"),
    "temper-retrieval": (
        *("python", "-m", "services.retrieval", "--host", "0.0.0.0", "--port", "8082"),
    ),
}
"""What each image runs."""
ROOMS = ("__init__.py", "contracts", "core", "datasets", "retrieval", "sandbox")
OF_RETRIEVAL = ("numpy", "faiss-cpu", "packaging", "pystemmer", "tantivy")
"""Packages that the sandbox's lock lacks."""
PROGRAMS = (
    *(Path("/bin/rm"), Path("/bin/true")),  # to clean up, and to see whether programs run
    Path("/usr/lib/x86_64-linux-gnu/libseccomp.so.2"),
)
RUNTIME = "opt/temper/runtimes/sandbox"
STAMP = '{"version": "0", "accelerator": "cpu"}'


def files() -> Iterator[tuple[Path, str]]:
    """Each file and folder that the services need beside Python, and its path in the image."""
    for room in ROOMS:
        yield REPOSITORY / "services" / room, f"{APP}/services/{room}"
    for program in PROGRAMS:
        yield program.resolve(), str(program)
    for path, name in _packages():
        yield path, f"{PACKAGES}/{name}"


def native_files() -> Iterator[Path]:
    """Those that need shared libraries."""
    yield from PROGRAMS
    yield from (path for path, _ in _packages() if ".so" in path.suffixes)


def is_packaged(library: Path) -> bool:
    """Whether a library comes with a package, which finds it beside itself."""
    return library.is_relative_to(sys.prefix)


def folders() -> Iterator[tarfile.TarInfo]:
    """Empty folders, and the sandbox's runtime, which is the image's own Python."""
    prepared = tarfile.TarInfo(VARIABLES["TEMPER_SANDBOX_PREPARED"].lstrip("/"))
    prepared.type, prepared.mode = tarfile.DIRTYPE, 0o755
    yield prepared
    python = tarfile.TarInfo(f"{RUNTIME}/bin/python")
    python.type, python.linkname = tarfile.SYMTYPE, "/usr/local/bin/python"
    yield python


def _packages() -> Iterator[tuple[Path, str]]:
    lock = (REPOSITORY / "infra" / "requirements" / "sandbox.txt").read_text()
    for name in (*re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE), *OF_RETRIEVAL):
        for file in distribution(name).files or ():
            if not str(file).startswith(".."):  # commands
                yield Path(str(file.locate())), str(file)
