"""The whole way of a fine-tune on this machine, on a task small enough for two CPU cores.

    python infra/demo/run.py          KEEP=1 leaves the stack up at the end

Makes a tiny base model with random weights, teaches it two-digit addition through the gateway's
REST interface, and compares its answers to held-out sums before and after. What a former run
made is used again. Exits with 0 only when the model has learned it.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.demo.outcome import AFTER_ABOVE, BEFORE_AT_MOST, Outcome, table_of, where_next
from infra.demo.steps import BASE, Demo, DemoFailed
from temper.cli.formats import duration
from temper.cli.gateway import client_of, default_port
from temper.cli.main import describe
from temper.cli.output import Output
from temper.client import DEFAULT_URL, ClientError
from temper.settings import ClientSettings, load_settings
from temper.stack.detached import end_stack, start_detached
from temper.stack.ports import any_free, is_free
from temper.stack.services import Service
from temper.stack.signals import STOP_SIGNALS
from temper.stack.state import StackFile

FOLDER = Path(__file__).resolve().parent
START_SECONDS = 120.0
MAKE_SECONDS = 300.0


def main() -> int:
    """Run all steps and return the exit code."""
    out = Output(as_json=False)
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    begun = time.monotonic()
    try:
        settings = load_settings()
        out.line("(a) a tiny base model, its data and the local stack")
        model, data = make_inputs(settings, out)
        with local_stack(settings, out) as url, client_of(url, settings) as client:
            outcome = Demo(client, out, settings.home).run(model, data)
    except KeyboardInterrupt:
        out.note("interrupted")
        return 130
    except ClientError as error:
        out.note(f"demo: error: {describe(error)}", "red")
        return 1
    _show(outcome, StackFile(settings.home), out)
    out.note(f"done in {duration(time.monotonic() - begun)}")
    return 0 if outcome.has_learned else 1


def _show(outcome: Outcome, stack: StackFile, out: Output) -> None:
    out.line("(e) what came of it")
    out.results.print(table_of(outcome))
    if not outcome.has_learned:
        limits = f"less than {BEFORE_AT_MOST} before and more than {AFTER_ABOVE} after"
        out.note(f"that is not what it should be: {limits}", "red")
    running = stack.running()
    out.line(
        "\nWhere to look next"
        + ("" if running else " (temper up starts the stack again, KEEP=1 leaves it up):")
    )
    out.line(where_next(outcome, running.url if running else DEFAULT_URL))


def make_inputs(settings: ClientSettings, out: Output) -> tuple[Path, Path]:
    """Make the base model below the model root, and the data; return their folders."""
    root = Path(os.environ.get("TEMPER_MODEL_ROOT") or settings.home / "models")
    model, data = root / BASE, settings.home / "demo"
    if (model / "config.json").is_file():
        out.note(f"  reusing {model}")
    else:
        runtimes = Path(os.environ.get("TEMPER_RUNTIMES") or settings.home / "runtimes")
        runtimes = runtimes.expanduser()  # as the workers and the installer do
        partial = model.with_name(f"{BASE}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        _python(runtimes / "training" / "bin" / "python", "tiny_model.py", partial)
        partial.rename(model)
        out.note(f"  made {model}")
    _python(Path(sys.executable), "addition.py", data)
    return model, data


def _python(python: Path, script: str, folder: Path) -> None:
    try:
        done = subprocess.run(
            [str(python), str(FOLDER / script), str(folder)],
            capture_output=True,
            text=True,
            timeout=MAKE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoFailed(f"{script}: {error}") from error
    if done.returncode != 0:
        raise DemoFailed(f"{script}: {' '.join(done.stderr.split()[-40:])}")


@contextmanager
def local_stack(settings: ClientSettings, out: Output) -> Iterator[str]:
    """Hand out the address of the stack that runs, or of one that ends with the block."""
    running = StackFile(settings.home).running()
    if running is not None:
        out.note(f"  using the stack that runs at {running.url}; it stays up")
        yield running.url
        return
    port = default_port(settings)
    if not is_free(port):
        taken, port = port, any_free()
        out.note(f"  port {taken} is taken; using {port}")
    keep = os.environ.get("KEEP") == "1"
    try:
        stop = threading.Event()  # Ctrl-C interrupts us instead
        ports = {Service.API: port}
        state = start_detached(settings.home, ports, START_SECONDS, settings.grace_seconds, stop)
        url = state.url if state is not None else ""
        out.note(f"  ready at {url}")
        yield url
    finally:
        if keep:
            out.note("KEEP=1: what runs of the stack stays up; temper down ends it")
        else:
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)  # nothing may be left behind
            out.note("ending the stack")
            end_stack(settings.home, settings.grace_seconds)


if __name__ == "__main__":
    sys.exit(main())
