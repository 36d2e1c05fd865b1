"""Building a runtime's environment from its declaration."""

import ctypes
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from infra.debian import PackagesUnavailable, install_packages
from infra.runtimes.installer.byte_code import compile_command
from infra.runtimes.installer.declaration import GIGABYTE, Declaration, IndexedRequirement
from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress
from infra.runtimes.installer.uv import Packages, Uv, has_uv, provide_uv

STAMP = "runtime.json"
"""Written as the last step: an environment without it is incomplete."""

STEP_SECONDS = 900.0
# An unreachable index fails after half a minute.
ONE_TRY = {"UV_HTTP_RETRIES": "1", "UV_HTTP_TIMEOUT": "15"}

IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


class InstallFailed(Exception):
    """A runtime could not be made; the message says why, ``log`` has the installer's output."""

    def __init__(self, message: str, log: Path) -> None:
        super().__init__(message)
        self.log = log


class Installation:
    """One runtime in one folder."""

    def __init__(self, declaration: Declaration, folder: Path, progress: Progress) -> None:
        self._declaration = declaration
        self._folder = folder
        self._progress = progress
        self._python = folder / "bin" / "python"
        self._log = folder.with_suffix(".log")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self._site_packages = folder / "lib" / version / "site-packages"

    def is_current(self) -> bool:
        """Whether the folder holds the complete environment that is declared."""
        try:
            stamp = json.loads((self._folder / STAMP).read_bytes())
        except (OSError, ValueError):
            return False
        return bool(stamp.get("version") == self._declaration.version and self._python.exists())

    def build(self, lock: int) -> str:
        """Build it from scratch under the held ``lock``; return a summary.

        Raises `InstallFailed`; the folder is then without a stamp, and the next build starts
        again.
        """
        self._log.write_bytes(b"")
        self._check_disk()
        try:
            self._provide_libraries(lock)
            self._steps(lock)
        except (CommandFailed, PackagesUnavailable, OSError) as error:
            raise InstallFailed(str(error), self._log) from error
        self._write_stamp()
        packages = sum(1 for _ in self._site_packages.glob("*.dist-info"))
        size = sum(f.lstat().st_size for f in self._folder.rglob("*") if not f.is_dir())
        elapsed = self._progress.elapsed()
        return f"ready, {packages} packages, {size / GIGABYTE:.1f} GB, {elapsed}"

    def _provide_libraries(self, lock: int) -> None:
        """Install the system packages of libraries that the dynamic loader does not find."""
        missing = [name for library, name in self._declaration.libraries if not _loads(library)]
        if not missing:
            return
        try:
            install_packages(missing, self._log, lock, self._progress)
        except PackagesUnavailable as error:
            wanted = " ".join(missing)
            raise PackagesUnavailable(f"it needs the system's {wanted}, and {error}") from None

    def _steps(self, lock: int) -> None:
        declaration = self._declaration
        if self._folder.exists():
            self._progress.show("removing what was there")
            (self._folder / STAMP).unlink(missing_ok=True)
            shutil.rmtree(self._folder)
        options = ("--without-pip",) if has_uv() else ()
        command = (sys.executable, "-m", "venv", *options, str(self._folder))
        self._run(lock, "creating the environment", *command)
        packages = Packages(declaration.package_count)
        program = provide_uv(self._python, self._log, lock, self._progress)
        uv = Uv(
            program, self._python, self._site_packages, self._log, lock, self._progress, packages
        )
        if declaration.torch is not None:
            self._install_indexed(uv, declaration.torch)
        uv.install("--requirements", str(declaration.lock), *declaration.no_deps)
        for name, version in declaration.metadata_only:
            self._write_metadata(name, version)
        self._compile(lock)
        if declaration.modules:
            command = (str(self._python), "-P", "-c", IMPORT, *declaration.modules)
            self._run(lock, "trying the imports", *command)
        if not has_uv():  # only needed for this installation, as in the build of an image
            command = (str(self._python), "-m", "pip", "uninstall", "--yes", "uv")
            self._run(lock, "removing uv", *command)

    def _install_indexed(self, uv: Uv, package: IndexedRequirement) -> None:
        """Prefer pip's own configuration: a mirror or a folder of wheels may have the package.

        Only the exact requirement is accepted, so a CPU build never becomes a CUDA build.
        """
        with suppress(CommandFailed):
            uv.install(package.requirement)
            return
        try:
            uv.install("--index", package.index, package.requirement, variables=ONE_TRY)
        except CommandFailed as error:
            raise CommandFailed(
                f"{error} (asked: the indexes of pip's configuration, then {package.index})"
            ) from None

    def _compile(self, lock: int) -> None:
        # Files for other Python versions stay uncompiled.
        with suppress(CommandFailed):
            command = compile_command(self._python, self._site_packages)
            self._run(lock, "compiling to byte code", *command)

    def _write_metadata(self, name: str, version: str) -> None:
        folder = self._site_packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        for file, content in (("METADATA", metadata), ("INSTALLER", "temper\n"), ("RECORD", "")):
            (folder / file).write_text(content, encoding="utf-8")

    def _check_disk(self) -> None:
        free = shutil.disk_usage(self._folder.parent).free
        needed = self._declaration.disk_bytes
        if free < needed:
            raise InstallFailed(
                f"it needs {needed / GIGABYTE:.0f} GB of disk space, and {self._folder.parent} "
                f"has {free / GIGABYTE:.1f} GB left",
                self._log,
            )

    def _run(self, lock: int, phase: str, *command: str) -> None:
        tick: Callable[[], None] = lambda: self._progress.show(phase)  # noqa: E731 - of two
        try:
            run_logged(command, log=self._log, lock=lock, limit=STEP_SECONDS, tick=tick)
        except CommandFailed as error:
            last = next((text for text in reversed(error.last_lines) if text.strip()), str(error))
            raise CommandFailed(f"{phase}: {last}", error.last_lines) from None

    def _write_stamp(self) -> None:
        declaration = self._declaration
        stamp = {
            "name": declaration.name,
            "version": declaration.version,
            "accelerator": declaration.accelerator,
            "python": declaration.python,
            "installed_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        partial = self._folder / f"{STAMP}.partial"
        partial.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        partial.replace(self._folder / STAMP)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
