"""Images whose services only answer health probes, in place of those of the compose file.

Their file system is the Python that runs the tests, a shell, and the libraries of both, so that
nothing is downloaded. Each image starts the stand-in of its service; probes, the sandbox and
retrieval are the real ones.
"""

import io
import json
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.docker import light_services
from tests.support.docker.engine import Engine
from tests.support.processes import REPOSITORY

STAND_IN = Path(__file__).with_name("stand_in_service.py")
PROBES = REPOSITORY / "infra" / "compose" / "health"
SCRIPTS = {
    "redis-server": "exec python -I -S /stand_in.py",
    "redis-cli": "echo PONG",
    "pg_isready": "exit 0",
    "sleep": 'exec python -I -S -c "import sys, time; time.sleep(float(sys.argv[1]))" "$1"',
}
"""Commands that the compose file and its probes run in the images of the stores."""
LEFT_OUT = {"__pycache__", "site-packages", "test", "idlelib", "lib2to3", "ensurepip", "tkinter"}
OWNED = ("/var/lib/temper", "/srv/campaigns")
"""Folders below which Temper writes; new volumes are owned as they are."""
INDEXER = f"{light_services.APP}/services/retrieval/worker.py"
"""The module that the indexer's command names; the stand-in takes its place."""
BASE = "temper-stand-in"
IMAGES = {
    "temper-api": "8080",
    "temper-campaigns": "",
    "temper-trainer": "",
    "temper-evaluator": "",
    "postgres:17-bookworm": "",
    "redis:7-bookworm": "",
}
"""The port of each image's stand-in; empty for one that serves none."""


def make_images(engine: Engine) -> None:
    """Make all images of the compose file."""
    engine.docker("import", "-", BASE, stdin=_file_system())
    container = engine.docker("create", BASE, "python").strip()
    for image, port in IMAGES.items():
        command = ["python", "-I", "-S", "/stand_in.py", *([port] if port else [])]
        changes = [f"CMD {json.dumps(command)}", "WORKDIR /app"]
        _commit(engine, container, image, changes)
    variables = [f"ENV {name}={value}" for name, value in light_services.VARIABLES.items()]
    for image, real in light_services.COMMANDS.items():
        own = [f"CMD {json.dumps(real)}", f"WORKDIR {light_services.APP}", *variables]
        _commit(engine, container, image, own)
    engine.docker("rm", container)


def _commit(engine: Engine, container: str, image: str, changes: list[str]) -> None:
    engine.docker("commit", *(f"--change={each}" for each in changes), container, image)


def _file_system() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        programs = {
            "/usr/local/bin/python": (Path(sys.base_prefix) / "bin" / version).resolve(),
            "/bin/sh": Path("/bin/sh").resolve(),
        }
        for link, program in programs.items():
            archive.add(program)
            if link != str(program):
                _add_link(archive, link, str(program))
        for library in _libraries(*programs.values(), *light_services.native_files()):
            if not light_services.is_packaged(library):
                archive.add(library.resolve(), arcname=str(library))
        for path, name in light_services.files():
            archive.add(path, arcname=name, filter=_without_the_indexer)
        for entry in light_services.folders():
            archive.addfile(entry)
        _add_file(archive, f"/{light_services.RUNTIME}/runtime.json", light_services.STAMP)
        archive.add(sysconfig.get_path("stdlib", vars=_base()), filter=_without_what_is_unused)
        archive.add(STAND_IN, arcname="/stand_in.py")
        archive.add(PROBES, arcname="/opt/temper/health")
        for name, line in SCRIPTS.items():
            _add_file(archive, f"/usr/local/bin/{name}", f"#!/bin/sh\n{line}\n")
        _add_file(archive, INDEXER, STAND_IN.read_text())
        for folder in OWNED:
            _add_folder(archive, folder, 10001)
        _add_folder(archive, "/tmp", 0)
    return content.getvalue()


def _base() -> dict[str, str]:
    return {"installed_base": sys.base_prefix, "base": sys.base_prefix}


def _libraries(*programs: Path) -> Iterator[Path]:
    """The shared libraries and the loader of programs, and of Python's extension modules."""
    modules = Path(sysconfig.get_path("stdlib", vars=_base())) / "lib-dynload"
    found: set[str] = set()
    command = ["ldd", *map(str, (*programs, *modules.glob("*.so")))]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        if not line.endswith(":"):  # else the file itself
            found.update(word for word in line.split() if word.startswith("/"))
    return map(Path, sorted(found))


def _without_what_is_unused(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(entry.name).name
    return None if name in LEFT_OUT or name.startswith("config-") else entry


def _without_the_indexer(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.name == INDEXER.lstrip("/") else entry


def _add_file(archive: tarfile.TarFile, path: str, text: str) -> None:
    entry = tarfile.TarInfo(path)
    entry.mode, entry.size = 0o755, len(text.encode())
    archive.addfile(entry, io.BytesIO(text.encode()))


def _add_folder(archive: tarfile.TarFile, path: str, owner: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if owner == 0 else 0o755
    entry.uid = entry.gid = owner
    archive.addfile(entry)


def _add_link(archive: tarfile.TarFile, path: str, target: str) -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)
