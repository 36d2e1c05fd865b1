"""Creating the core environment."""

import importlib.util
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from infra.core.stamp import (
    STAMP,
    Step,
    missing_steps,
    read_stamp,
    wanted_stamp,
    write_stamp,
)
from infra.debian import PackagesUnavailable, install_packages
from infra.runtimes.installer.byte_code import compile_command
from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress
from infra.runtimes.installer.uv import Packages, Uv, count_requirements, provide_uv

STEP_SECONDS = 600.0
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


class CoreEnvironment:
    """The environment of one checkout in ``folder``; ``log`` receives all output."""

    def __init__(self, repository: Path, folder: Path, log: Path, progress: Progress) -> None:
        self._repository = repository
        self._folder = folder
        self._log = log
        self._progress = progress
        self._python = folder / "bin" / "python"
        self._site_packages = folder / "lib" / PYTHON / "site-packages"
        self._wanted = wanted_stamp(repository, folder)

    def missing_steps(self, *, dev: bool) -> list[Step]:
        """The missing steps; with ``dev``, those of the test tools too."""
        return missing_steps(read_stamp(self._folder), self._wanted, dev=dev)

    def install(self, steps: list[Step], lock: int) -> str:
        """Carry out ``steps`` under the held ``lock``; return a summary.

        Raises `CommandFailed` or `PackagesUnavailable`; the environment is then without a stamp,
        and the next installation recreates it.
        """
        self._log.write_bytes(b"")
        found = read_stamp(self._folder)
        (self._folder / STAMP).unlink(missing_ok=True)
        if Step.CREATE in steps:
            self._create(lock)
        requirements = self._repository / "infra" / "requirements"
        locks = [requirements / f"{step}.txt" for step in (Step.CORE, Step.DEV) if step in steps]
        uv = self._uv(lock, sum(count_requirements(path) for path in locks))
        for path in locks:
            uv.install("--requirements", str(path))
        if Step.PROJECT in steps:
            uv.install("--editable", str(self._repository))
        self._compile(lock)
        kept = found.dev if found is not None and Step.CREATE not in steps else None
        dev = self._wanted.dev if Step.DEV in steps else kept
        write_stamp(self._folder, replace(self._wanted, dev=dev))
        return f"ready, {sum(1 for _ in self._site_packages.glob('*.dist-info'))} packages"

    def _create(self, lock: int) -> None:
        # Never run by the Python inside the folder, which is removed first.
        python = Path(sys.base_prefix) / "bin" / PYTHON
        if importlib.util.find_spec("ensurepip") is None:
            self._progress.show(f"installing {PYTHON}-venv")
            self._add_venv(lock)
        if self._folder.exists():
            self._progress.show("removing what was there")
            shutil.rmtree(self._folder)
        command = (str(python), "-m", "venv", str(self._folder))
        self._run(lock, "creating the environment", *command)

    def _add_venv(self, lock: int) -> None:
        """Install the package with ensurepip, which Debian's Python leaves out."""
        package = f"{PYTHON}-venv"
        try:
            install_packages([package], self._log, lock, self._progress)
        except PackagesUnavailable as error:
            raise PackagesUnavailable(
                f"{sys.executable} cannot make environments without the package {package}, "
                f"and {error}"
            ) from None

    def _uv(self, lock: int, packages: int) -> Uv:
        return Uv(
            provide_uv(self._python, self._log, lock, self._progress),
            self._python,
            self._site_packages,
            self._log,
            lock,
            self._progress,
            Packages(packages),
        )

    def _compile(self, lock: int) -> None:
        # Files for other Python versions stay uncompiled.
        with suppress(CommandFailed):
            command = compile_command(self._python, self._site_packages)
            self._run(lock, "compiling to byte code", *command)

    def _run(self, lock: int, phase: str, *command: str) -> None:
        run_logged(
            command,
            log=self._log,
            lock=lock,
            limit=STEP_SECONDS,
            tick=lambda: self._progress.show(phase),
        )
