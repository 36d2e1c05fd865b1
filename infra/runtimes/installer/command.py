"""The installer's command line."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.runtimes.installer.declaration import DeclarationError, declared, read_declaration
from infra.runtimes.installer.environment import Installation, InstallFailed
from infra.runtimes.installer.lock import LockTimeout, exclusive
from infra.runtimes.installer.progress import Progress

DECLARATIONS = Path(__file__).resolve().parents[1]
LOCK_SECONDS = 3600.0
DRIVER_SECONDS = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Install what ``arguments`` name; return the exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    options = _parser().parse_args(arguments)
    accelerator = _accelerator(options.accelerator)
    for name in options.names:
        progress = Progress(f"runtime {name}", sys.stdout)
        try:
            progress.end(_install(name, accelerator, _runtimes(options.home), progress))
        except (DeclarationError, LockTimeout) as error:
            progress.end(f"not installed: {error}")
            return 1
        except InstallFailed as error:
            progress.end(f"not installed: {error}")
            _print_end_of(error.log)
            return 1
        except KeyboardInterrupt:
            progress.end("interrupted; the next install starts it again")
            return 130
    return 0


def announcement(names: Sequence[str]) -> list[str]:
    """One line with the size of each runtime that would be installed."""
    accelerator = _accelerator("auto")
    lines = []
    for name in names:
        declaration = read_declaration(DECLARATIONS / name, accelerator)
        progress = Progress(f"runtime {name}", sys.stdout)
        if not Installation(declaration, _runtimes(None) / name, progress).is_current():
            lines.append(
                f"runtime {name}: {declaration.package_count} packages, "
                f"about {declaration.download_megabytes} MB to download: {declaration.summary}"
            )
    return lines


def _install(name: str, accelerator: str, runtimes: Path, progress: Progress) -> str:
    declaration = read_declaration(DECLARATIONS / name, accelerator)
    runtimes.mkdir(parents=True, exist_ok=True)
    installation = Installation(declaration, runtimes / name, progress)
    if installation.is_current():
        return "ready, reused"
    with exclusive(runtimes / f"{name}.lock", LOCK_SECONDS, progress.show) as lock:
        if installation.is_current():  # another process has just installed it
            return "ready, reused"
        return installation.build(lock)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="install.py", description="Install the runtimes that Temper's workers start."
    )
    known = declared(DECLARATIONS)
    parser.add_argument("names", nargs="+", choices=known, metavar="NAME", help=", ".join(known))
    parser.add_argument(
        "--home",
        type=_folder,
        help="install to its folder runtimes; default: to TEMPER_RUNTIMES, else to the folder "
        "runtimes of TEMPER_HOME, else of .temper in the repository",
    )
    parser.add_argument("--accelerator", choices=("auto", "cpu", "cuda"), default="auto")
    return parser


def _folder(text: str) -> Path:
    return Path(text).expanduser().resolve()


def _runtimes(home: Path | None) -> Path:
    """The target folder: that of ``home``, or else where the workers look."""
    if home is None and (named := os.environ.get("TEMPER_RUNTIMES")):
        return _folder(named)
    default = os.environ.get("TEMPER_HOME") or str(DECLARATIONS.parents[1] / ".temper")
    return (home or _folder(default)) / "runtimes"


def _accelerator(wanted: str) -> str:
    if wanted != "auto":
        return wanted
    return "cuda" if _has_nvidia_driver() else "cpu"


def _has_nvidia_driver() -> bool:
    if Path("/dev/nvidiactl").exists():
        return True
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        asked = subprocess.run(
            [program, "-L"], capture_output=True, timeout=DRIVER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0 and b"GPU" in asked.stdout


def _print_end_of(log: Path, lines: int = 20) -> None:
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    print(f"--- end of {log}", *text[-lines:], "---", sep="\n", flush=True)


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt
