"""Processor time and memory of a stack that has nothing to do.

    python -m benchmarks.idle [--seconds 60] [--before CHECKOUT | --containers]

Starts the stack of this checkout, with ``--before`` also that of another one, in folders of their
own, and lets them settle. Prints for each service, its child processes included, the processor time
during the same minute in percent of a core, and then its memory: resident (RSS), and with shared
pages divided among their users (PSS).

With ``--containers`` it measures what Docker Compose runs instead. The time of a container includes
its health probes and the engine's process for it; the engine's own processes are another row.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil

from temper.stack.state import StackFile, StackState
from tests.support.runtimes import FOLDER

REPOSITORY = Path(__file__).resolve().parents[1]
START_SECONDS = 300.0
SETTLE_SECONDS = 20.0
ENGINE = {"dockerd", "containerd"}


@dataclass(frozen=True)
class Usage:
    """Processor time in seconds, and memory in bytes."""

    cpu: float
    rss: int
    pss: int


Meters = Mapping[str, Callable[[], Usage]]
"""How to read the usage of each part of a stack."""


def usage_of(pid: int) -> Usage:
    """Return the usage of a process and its descendants; reaped ones count with their time."""
    return _sum(psutil.Process(pid), *psutil.Process(pid).children(recursive=True))


def usage_without_children(*pids: int) -> Usage:
    """Return the usage of processes whose children are measured apart."""
    return _sum(*map(psutil.Process, pids), reaped=False)


def _sum(*processes: psutil.Process, reaped: bool = True) -> Usage:
    cpu, rss, pss = 0.0, 0, 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times, memory = process.cpu_times(), process.memory_full_info()
            cpu += times.user + times.system
            cpu += times.children_user + times.children_system if reaped else 0.0
            rss += memory.rss
            pss += memory.pss
    return Usage(cpu, rss, pss)


def services_of(state: StackState) -> Meters:
    """Return the meters of a stack of processes."""
    alive = [each for each in state.services if each.process.is_alive]
    meters = {each.name.value: partial(usage_of, each.process.pid) for each in alive}
    # Its children are the services.
    return meters | {"up": partial(usage_without_children, state.supervisor.pid)}


def containers() -> Meters:
    """Return the meters of the containers that Docker Compose runs, and of their engine."""
    label = "com.docker.compose"
    listed = _docker("ps", "--quiet", f"--filter=label={label}.project=temper").split()
    named = f'{{{{index .Config.Labels "{label}.service"}}}} {{{{.State.Pid}}}}'
    rows = [row.split() for row in _docker("inspect", f"--format={named}", *listed).splitlines()]
    engine = [each.pid for each in psutil.process_iter() if each.name() in ENGINE]
    meters = {name: partial(usage_of_container, int(pid)) for name, pid in rows}
    return meters | {"engine": partial(usage_without_children, *engine)}


def usage_of_container(pid: int) -> Usage:
    """Return the usage of a container with this first process.

    Its health probes are children of the engine's process for the container, which reaps them.
    """
    manager = psutil.Process(pid).ppid()
    return replace(usage_of(pid), cpu=usage_of(manager).cpu)


def _docker(*arguments: str) -> str:
    command = ["docker", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def running_stack(checkout: Path) -> Iterator[StackState]:
    """Run the stack of a checkout in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="temper-idle-") as home:
        kept = {name: value for name, value in os.environ.items() if "TEMPER" not in name}
        own = {
            "TEMPER_HOME": home,
            "TEMPER_RUNTIMES": str(FOLDER),
            "TEMPER_SANDBOX_PREPARED": str(FOLDER.parent / "sandbox" / "prepared"),
            "PYTHONPATH": str(checkout),
        }
        command = [sys.executable, "-P", "-m", "temper"]
        up = [*command, "up", "--detach", "--port", "0", f"--timeout={START_SECONDS}"]
        down = [*command, "down"]
        try:
            for each in (up, down, up):  # the first start creates the database
                subprocess.run(each, env=kept | own, check=True, stdout=subprocess.DEVNULL)
            content = json.loads(StackFile(Path(home)).path.read_text())
            content.pop("absent", None)  # of an earlier release
            yield StackState.model_validate(content)
        finally:
            subprocess.run(down, env=kept | own, check=False, stdout=subprocess.DEVNULL)


def measure(stacks: list[Meters], seconds: float) -> list[dict[str, Usage]]:
    """Return the usage of each part of each stack, the time being that of ``seconds``."""
    before = [{name: read() for name, read in each.items()} for each in stacks]
    time.sleep(seconds)
    after = [{name: read() for name, read in each.items()} for each in stacks]
    return [
        {name: replace(last[name], cpu=last[name].cpu - first[name].cpu) for name in last}
        for first, last in zip(before, after, strict=True)
    ]


def report(found: list[dict[str, Usage]], seconds: float) -> None:
    """Print a table of each stack, and the ratio of the first to the last."""
    for usages in found:
        print(f"{'service':12}{'CPU %':>8}{'RSS MB':>9}{'PSS MB':>9}")
        for name, usage in sorted(usages.items()):
            share = 100 * usage.cpu / seconds
            print(f"{name:12}{share:8.2f}{usage.rss / 1e6:9.0f}{usage.pss / 1e6:9.0f}")
        print(f"{'together':12}{100 * total(usages) / seconds:8.2f}")
    if len(found) > 1:
        print(f"before / after: {total(found[0]) / total(found[-1]):.1f}")


def total(usages: dict[str, Usage]) -> float:
    """Return the processor time of a stack in seconds."""
    return sum(usage.cpu for usage in usages.values())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.idle", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of the measurement")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--before", type=Path, help="another checkout, measured first")
    what.add_argument("--containers", action="store_true", help="those of Docker Compose")
    options = parser.parse_args()
    if options.containers:
        report(measure([containers()], options.seconds), options.seconds)
        return
    checkouts = [*([options.before.resolve()] if options.before else []), REPOSITORY]
    with contextlib.ExitStack() as stacks:
        states = [stacks.enter_context(running_stack(checkout)) for checkout in checkouts]
        time.sleep(SETTLE_SECONDS)
        report(measure(list(map(services_of, states)), options.seconds), options.seconds)


if __name__ == "__main__":
    main()
