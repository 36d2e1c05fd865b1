"""Time to first token of cold models: a base without an engine, and an unloaded adapter of a
running one.

    python -m benchmarks.cold_start [--rounds 5]

A gateway and a worker serve a tiny model with a real vLLM. Alternating, the engine is stopped and
requested again through the gateway, and the identical command is run by hand; both are timed from
the request or the command to the first token. Then requests name adapters that the engine has not
loaded yet, and the model that it has.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from services.contracts.engine import VllmOptions
from services.contracts.models.registered import RegisterModel
from services.contracts.serving import DeployModel
from temper import Temper
from tests.support.models.tiny_adapter import write_adapter
from tests.support.models.tiny_model import make_tiny_model
from tests.support.processes import free_port, running, running_gateway
from tests.support.runtimes import FOLDER
from tests.support.waiting import wait_for

MODEL = "base"
SECONDS = 300.0


@dataclass(frozen=True)
class Engine:
    """How a worker started an engine."""

    command: list[str]
    environment: dict[str, str]

    @property
    def key(self) -> str:
        """Return the API key of the engine."""
        return self.environment["VLLM_API_KEY"]


def first_token(client: httpx.Client, url: str, model: str, key: str) -> None:
    """Request an answer and return at its first token."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "12+30="}],
        "stream": True,
        "max_tokens": 4,
    }
    headers = {"Authorization": f"Bearer {key}"}
    address = f"{url}/v1/chat/completions"
    with client.stream("POST", address, json=body, headers=headers) as response:
        response.raise_for_status()
        if not any(line.startswith("data: {") for line in response.iter_lines()):
            raise SystemExit(f"{model} returned no token")


def seconds_of(client: httpx.Client, url: str, model: str) -> float:
    """Return the time to first token of one request."""
    begun = time.perf_counter()
    first_token(client, url, model, "none")
    return time.perf_counter() - begun


def engine_below(pid: int) -> Engine:
    """Return the engine started by a worker, as registered with the process watchdog."""
    python = str(FOLDER.resolve() / "vllm" / "bin" / "python")
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error, ValueError):
            command, environment = process.cmdline(), process.environ()
            return Engine(command[command.index(python) :], environment)
    raise SystemExit("the worker has no engine")


def by_hand(client: httpx.Client, engine: Engine, log: Path) -> float:
    """Return the seconds from an engine's command to its first token."""
    port = free_port()
    command = list(engine.command)
    command[command.index("--port") + 1] = str(port)
    url = f"http://127.0.0.1:{port}"
    begun = time.perf_counter()
    with (
        log.open("wb") as output,
        tempfile.TemporaryDirectory(prefix="engine-") as scratch,
        subprocess.Popen(
            command,
            env={**engine.environment, "TMPDIR": scratch},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            wait_for(lambda: is_up(client, url, process, log), "the engine is up", SECONDS)
            first_token(client, url, MODEL, engine.key)
            return time.perf_counter() - begun
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def is_up(client: httpx.Client, url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether an engine responds."""
    if process.poll() is not None:
        raise SystemExit(f"the engine exited: {log.read_text()[-2000:]}")
    try:
        return client.get(f"{url}/health").is_success
    except httpx.TransportError:
        return False


def end_serving(temper: Temper) -> None:
    """Stop the engine and all its processes."""
    (serving,) = temper.servings.undeploy(MODEL).servings
    wait_for(lambda: temper.servings.get(serving).status.is_final, "the serving ended")


def line(name: str, *columns: list[float]) -> None:
    """Print medians and ranges."""
    cells = (f"{statistics.median(c):>8.2f} ({min(c):.2f} to {max(c):.2f})" for c in columns)
    print(f"{name:<36}{'  '.join(cells)}", flush=True)


def main(rounds: int) -> None:
    """Run the benchmark."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home = folder / "home"
        make_tiny_model(home / "models" / MODEL)
        adapters = [f"adapter-{number}" for number in range(rounds)]
        for number, name in enumerate(adapters):
            write_adapter(home / "models" / name, number)
        settings = {"TEMPER_HOME": str(home), "TEMPER_RUNTIMES": str(FOLDER)}
        gateway = stack.enter_context(running_gateway(settings, folder / "gateway.log"))
        log = folder / "worker.log"
        worker = stack.enter_context(running("services.evaluator", (), settings, log))
        temper = stack.enter_context(Temper(gateway))
        client = stack.enter_context(httpx.Client(timeout=SECONDS))
        temper.models.register(RegisterModel(id=MODEL, folder=MODEL))
        for name in adapters:
            temper.models.register(RegisterModel(id=name, folder=name, base=MODEL))
        temper.servings.deploy(MODEL, DeployModel())
        seconds_of(client, gateway, MODEL)  # warm up the file cache
        engine = engine_below(worker.pid)

        cold, hand = [], []
        for _ in range(rounds):
            end_serving(temper)
            hand.append(by_hand(client, engine, folder / "engine.log"))
            cold.append(seconds_of(client, gateway, MODEL))
        warm = [seconds_of(client, gateway, MODEL) for _ in range(rounds)]
        end_serving(temper)
        temper.servings.deploy(MODEL, DeployModel(engine=VllmOptions(max_lora_rank=8)))
        seconds_of(client, gateway, MODEL)
        loaded = [seconds_of(client, gateway, name) for name in adapters]
        print("time to first token in seconds, median (and range)")
        line("engine by hand", hand)
        line("cold base, through the gateway", cold)
        line("  more than by hand, pair by pair", [a - b for a, b in zip(cold, hand, strict=True)])
        line("cold adapter of a warm base", loaded)
        line("warm base", warm)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)
