"""Setup of a demo: a tiny model, data files and a running local stack."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.demo_common.steps import DemoFailed
from temper.cli.gateway import default_port
from temper.cli.output import Output
from temper.settings import ClientSettings
from temper.stack.addresses import any_free, is_free
from temper.stack.detached import end_stack, start_detached
from temper.stack.services import Service
from temper.stack.signals import STOP_SIGNALS
from temper.stack.state import StackFile

BUILD_SECONDS = 300.0
START_SECONDS = 120.0
ALLOWED_ENDPOINTS = "TEMPER_ALLOWED_ENDPOINTS"
SCRIPTS = Path(__file__).resolve().parents[1]


def make_model(
    settings: ClientSettings, name: str, script: str, arguments: Sequence[str], out: Output
) -> Path:
    """Run a model script with the training runtime's Python; return the model's folder.

    The model goes below the model root; an existing one is reused.
    """
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
    out.note(f"  created {model}")
    return model


def _run(command: Sequence[str]) -> None:
    script = Path(command[1]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoFailed(f"{script}: {error}") from error
    if done.returncode != 0:
        raise DemoFailed(f"{script}: {' '.join(done.stderr.split()[-40:])}")


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@contextmanager
def local_stack(
    settings: ClientSettings, out: Output, endpoint: str | None = None
) -> Iterator[str]:
    """Yield the URL of the running stack, or of a new one that stops with the block.

    A new one may call ``endpoint``, an origin. With KEEP=1 in the environment, it keeps running.
    """
    running = StackFile(settings.home).running()
    if running is not None:
        out.note(f"  using the stack at {running.url}; it keeps running")
        yield running.url
        return
    port = default_port(settings)
    if not is_free(port):
        taken, port = port, any_free()
        out.note(f"  port {taken} is in use; using {port}")
    keep = os.environ.get("KEEP") == "1"
    try:
        stop = threading.Event()  # never set: Ctrl-C raises KeyboardInterrupt here
        ports = {Service.API: port}
        state = start_detached(
            settings.home,
            ports,
            START_SECONDS,
            settings.grace_seconds,
            stop,
            _allowing(endpoint) if endpoint is not None else {},
        )
        url = state.url if state is not None else ""
        out.note(f"  ready at {url}")
        yield url
    finally:
        if keep:
            out.note("KEEP=1: the stack keeps running; temper down stops it")
        else:
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)  # finish the shutdown undisturbed
            out.note("stopping the stack")
            end_stack(settings.home, settings.grace_seconds)


def _allowing(endpoint: str) -> dict[str, str]:
    """Return the setting that adds an endpoint to the gateway's allowlist."""
    others = os.environ.get(ALLOWED_ENDPOINTS, "")
    return {ALLOWED_ENDPOINTS: ",".join(filter(None, (others, endpoint)))}
