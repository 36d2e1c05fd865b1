"""Setup of a demo: a tiny model, data files and a running local stack."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from examples.demo_common.printer import Printer
from temper import Temper
from temper.client import DEFAULT_URL, ClientError

BUILD_SECONDS = 300.0
START_SECONDS = 120.0
COMMAND_SECONDS = 300.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ALLOWED_ENDPOINTS = "TEMPER_ALLOWED_ENDPOINTS"
SCRIPTS = Path(__file__).resolve().parents[1]


class DemoFailed(ClientError):
    """The demo cannot continue."""

    code = "demo_failed"


def home_folder() -> Path:
    """The folder of everything that Temper writes on this machine."""
    return Path(os.environ.get("TEMPER_HOME") or ".temper").expanduser().resolve()


def make_model(home: Path, name: str, script: str, arguments: Sequence[str], out: Printer) -> Path:
    """Run a model script with the training runtime's Python; return the model's folder.

    The model goes below the model root; an existing one is reused.
    """
    model = model_root(home) / name
    if (model / "config.json").is_file():
        out.note(f"  reusing {model}")
        return model
    partial = model.with_name(f"{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    runtimes = Path(os.environ.get("TEMPER_RUNTIMES") or home / "runtimes").expanduser()
    python = runtimes / "training" / "bin" / "python"
    _run([str(python), str(SCRIPTS / script), str(partial), *arguments])
    partial.rename(model)
    out.note(f"  created {model}")
    return model


def model_root(home: Path) -> Path:
    """The folder below which the local stack registers models."""
    return Path(os.environ.get("TEMPER_MODEL_ROOT") or home / "models").expanduser()


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
def local_stack(home: Path, out: Printer, endpoint: str | None = None) -> Iterator[Temper]:
    """Yield a client of the running stack, or of a new one that stops with the block.

    A new one may call ``endpoint``, an origin. With KEEP=1 in the environment, it keeps running.
    """
    ports = [] if _is_free(_default_port()) else ["--port=0"]
    variables = _allowing(endpoint) if endpoint is not None else {}
    options = ["--detach", "--json", f"--timeout={START_SECONDS:g}", *ports]
    begun = time.time()
    try:
        state = json.loads(command(home, "up", *options, **variables))
    except KeyboardInterrupt:
        _stop(home, out)
        raise
    if state["started_at"] < begun:
        out.note(f"  using the stack at {state['url']}; it keeps running")
        with _client(state["url"]) as client:
            yield client
        return
    try:
        out.note(f"  ready at {state['url']}")
        with _client(state["url"]) as client:
            yield client
    finally:
        if os.environ.get("KEEP") == "1":
            out.note("KEEP=1: the stack keeps running; temper down stops it")
        else:
            _stop(home, out)


def _client(url: str) -> Temper:
    return Temper(url, os.environ.get("TEMPER_API_KEY"))


def _stop(home: Path, out: Printer) -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # finish the shutdown undisturbed
    out.note("stopping the stack")
    command(home, "down")


def command(home: Path, *arguments: str, url: str = "", **variables: str) -> str:
    """Run a ``temper`` command and return what it prints; its messages go to standard error.

    It talks to the gateway at ``url``, else to that of the stack in ``home``.
    """
    environment = {**os.environ, **variables, "TEMPER_HOME": str(home)}
    if url:
        environment["TEMPER_API_URL"] = url
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "temper", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DemoFailed(f"temper {arguments[0]} took too long") from error
    if done.returncode != 0:
        raise DemoFailed(f"temper {arguments[0]} failed")
    return done.stdout


def _default_port() -> int:
    return urlsplit(os.environ.get("TEMPER_API_URL") or DEFAULT_URL).port or 80


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _allowing(endpoint: str) -> Mapping[str, str]:
    """Return the setting that adds an endpoint to the gateway's allowlist."""
    others = os.environ.get(ALLOWED_ENDPOINTS, "")
    return {ALLOWED_ENDPOINTS: ",".join(filter(None, (others, endpoint)))}
