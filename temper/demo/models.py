"""Making the tiny models that demonstrations begin with."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from temper.cli.output import Output
from temper.demo.steps import DemoFailed
from temper.settings import ClientSettings

MAKE_SECONDS = 300.0
SCRIPTS = Path(__file__).resolve().parent


def make_model(
    settings: ClientSettings, name: str, script: str, arguments: Sequence[str], out: Output
) -> Path:
    """Make a model below the model root, by a script for the training runtime, unless it is
    there; return its folder."""
    root = Path(os.environ.get("TEMPER_MODEL_ROOT") or settings.home / "models").expanduser()
    model = root / name
    if (model / "config.json").is_file():
        out.note(f"  reusing {model}")
        return model
    partial = model.with_name(f"{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    runtimes = Path(os.environ.get("TEMPER_RUNTIMES") or settings.home / "runtimes").expanduser()
    python = runtimes / "training" / "bin" / "python"
    _run([str(python), str(SCRIPTS / script), str(partial), *arguments])
    partial.rename(model)
    out.note(f"  made {model}")
    return model


def _run(command: Sequence[str]) -> None:
    script = Path(command[1]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoFailed(f"{script}: {error}") from error
    if done.returncode != 0:
        raise DemoFailed(f"{script}: {' '.join(done.stderr.split()[-40:])}")
