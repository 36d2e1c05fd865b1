"""A copy of the installer with toy runtimes of tiny wheels, installed without a network."""

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import REPOSITORY

INSTALL_SECONDS = 300


def make_wheel(
    folder: Path, name: str, version: str, requires: str = "", waits_for: Path | None = None
) -> None:
    """Build a wheel of one module with a ``VERSION``; ``requires`` need not exist.

    Its import blocks while the file ``waits_for`` exists.
    """
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    code = f"VERSION = {version!r}\n"
    if waits_for is not None:
        code += f"import os, time\nwhile os.path.exists({str(waits_for)!r}): time.sleep(0.05)\n"
    files = {f"{name}.py": code}
    files |= {f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, content)


@dataclass
class Toys:
    """The copied installer, a folder of wheels for pip, and a home to install to."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    with_home: bool = True  # name the home on the command line

    def __post_init__(self) -> None:
        installer = self.declarations / "installer"
        shutil.copytree(REPOSITORY / "infra" / "runtimes" / "installer", installer)
        shutil.copy(REPOSITORY / "infra" / "runtimes" / "install.py", self.declarations)
        shutil.copy(REPOSITORY / "infra" / "debian.py", self.declarations.parent)
        self.wheels.mkdir()

    @property
    def declarations(self) -> Path:
        return self.folder / "infra" / "runtimes"

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def declare(self, name: str, toml: str, lock: str) -> None:
        """Declare or change a runtime."""
        runtime = self.declarations / name
        runtime.mkdir(exist_ok=True)
        (runtime / "runtime.toml").write_text(toml)
        (runtime / "cpu.txt").write_text(lock)

    def start(self, *names: str) -> "subprocess.Popen[str]":
        """Start an install with its output piped as text."""
        script = str(self.declarations / "install.py")
        home = ["--home", str(self.home)] if self.with_home else []
        command = [sys.executable, script, *names, *home]
        return subprocess.Popen(
            [*command, "--accelerator", "cpu"],
            env={**os.environ, **self._pip(), **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def install(self, *names: str) -> tuple[int, str]:
        """Install and wait; return the exit code and the output."""
        process = self.start(*names)
        try:
            output, _ = process.communicate(timeout=INSTALL_SECONDS)
        finally:
            process.kill()
        return process.returncode, output

    def run(self, name: str, code: str) -> str:
        """Run code with a runtime's Python; return what it prints."""
        python = self.home / "runtimes" / name / "bin" / "python"
        command = [str(python), "-I", "-c", code]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def _pip(self) -> dict[str, str]:
        """Settings that limit pip to the toy wheels, without a network."""
        return {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_CACHE_DIR": "1",
        }
