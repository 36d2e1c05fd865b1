"""Base images made of the distribution's packages, in place of those that Docker Hub has.

The Dockerfile is built on them where nothing can be pulled: the distribution's minimal system with
the Python that runs the tests under /usr/local, and its PostgreSQL and Redis.
"""

import http.server
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.testing.compose import archive_of
from tests.support.docker.engine import Engine

PYTHON_IMAGE = "python:3.11-slim-bookworm"
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BOOTSTRAP_SECONDS = 900.0
STORES = Path(__file__).with_name("stand_in_stores")
"""How the images of PostgreSQL and Redis are built."""


def make_base_images(engine: Engine, folder: Path) -> None:
    """Make the images that the Dockerfile and the compose file name; skip where they cannot be."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the images have Python 3.11, and that of the tests takes its place")
    root = _system(folder)
    _add_python(root)
    packed = subprocess.run(
        ["tar", "--create", "--directory", str(root), "."], capture_output=True, check=True
    ).stdout
    engine.docker("import", "-", PYTHON_IMAGE, stdin=packed)
    del packed
    shutil.rmtree(root)
    engine.compose("build", files=(str(STORES / "compose.yml"),))


def _system(folder: Path) -> Path:
    program = shutil.which("debootstrap")
    if program is None:
        pytest.skip("debootstrap, which makes the base of the images, is not installed")
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    indexes = subprocess.run(
        ["apt-get", "update", "--print-uris"], capture_output=True, text=True, check=False
    )
    archive = archive_of(indexes.stdout, release)
    if archive is None:
        pytest.skip(f"apt's configuration names no archive of {release}")
    root = folder / "base"
    command = [program, "--variant=minbase", "--include=ca-certificates", release, str(root)]
    with (folder / "debootstrap.log").open("wb") as log:
        done = subprocess.run(
            [*command, archive], stdout=log, stderr=log, timeout=BOOTSTRAP_SECONDS, check=False
        )
    if done.returncode != 0:
        pytest.skip(f"debootstrap could not fetch {release} from {archive}")
    for cached in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(root / cached)
    return root


def _add_python(root: Path) -> None:
    """Put this Python under /usr/local, as the official image has it, without byte code."""
    prefix, local = Path(sys.base_prefix), root / "usr" / "local"
    unused = shutil.ignore_patterns("__pycache__", "test", "site-packages", "config-*", "*.a")
    library = local / "lib" / VERSION
    shutil.copytree(prefix / "lib" / VERSION, library, symlinks=True, ignore=unused)
    packages = prefix / "lib" / VERSION / "site-packages"
    for pip in packages.glob("pip*"):
        shutil.copytree(pip, library / "site-packages" / pip.name, ignore=unused)
    shutil.copy2((prefix / "bin" / VERSION).resolve(), local / "bin" / VERSION)
    for link in ("python", "python3"):
        (local / "bin" / link).symlink_to(VERSION)
    modules = (library / "lib-dynload").glob("*.so")
    for wanted in _libraries(local / "bin" / VERSION, *modules):
        # The system of the tests has some that its minimal one lacks.
        if not (root / str(wanted).lstrip("/")).exists():
            shutil.copy2(wanted.resolve(), local / "lib" / wanted.name)
    shutil.copy2(CERTIFICATES, root / str(CERTIFICATES).lstrip("/"))
    (root / "etc" / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n")
    subprocess.run(["ldconfig", "-r", str(root)], check=True)


def _libraries(*programs: Path) -> Iterator[Path]:
    command = ["ldd", *map(str, programs)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    # LIBRARY => PATH (ADDRESS)
    found = {line.split()[2] for line in listed.splitlines() if " => /" in line}
    return map(Path, sorted(found))


@contextmanager
def package_arguments() -> Iterator[Mapping[str, str]]:
    """The build arguments with which pip finds in a build what it finds here.

    Folders of this machine are served on loopback, which builds reach on the host's network.
    """
    asked = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    roots: set[Path] = set()

    class Folders(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            found = Path(super().translate_path(path)).resolve()
            allowed = any(root in (found, *found.parents) for root in roots)
            return str(found) if allowed else "/nonexistent"

        def log_message(self, *_: object) -> None:
            pass

    def serving(*arguments: object, **keywords: object) -> Folders:
        return Folders(*arguments, directory="/", **keywords)  # type: ignore[arg-type]  # the mapping's values are of several types

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serving) as server:
        url = f"http://127.0.0.1:{server.server_port}"

        def address(word: str) -> str:
            path = urlsplit(word).path if word.startswith("file:") else word
            if not path.startswith("/"):
                return word
            # An index refers to files beside it.
            roots.add(Path(path).parent if word.startswith("file:") else Path(path))
            return f"{url}{path}"

        options: dict[str, list[str]] = {"trusted-host": ["127.0.0.1"]}
        for line in sorted(listed.splitlines(), reverse=True):  # :env: overrules files
            key, _, value = line.partition("=")
            name = key.rpartition(".")[2]
            if name in ("index-url", "extra-index-url", "find-links"):
                options[name] = [address(word) for word in value.strip("'\"").split()]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield {
                f"PIP_{name.upper().replace('-', '_')}": " ".join(words)
                for name, words in options.items()
            }
        finally:
            server.shutdown()
