"""Processor time and memory of a stack that has nothing to do.

    python -m benchmarks.idle [--seconds 60] [--before CHECKOUT]

Starts the stack of this checkout, with ``--before`` also that of another one, in folders of their
own, and lets them settle. Prints for each service, its child processes included, the processor time
during the same minute in percent of a core, and then its memory: resident (RSS), and with shared
pages divided among their users (PSS).
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from temper.stack.state import StackFile, StackState
from tests.support.runtimes import FOLDER

REPOSITORY = Path(__file__).resolve().parents[1]
START_SECONDS = 300.0
SETTLE_SECONDS = 20.0


@dataclass(frozen=True)
class Usage:
    """Processor time in seconds, and memory in bytes."""

    cpu: float
    rss: int
    pss: int


def usage_of(pid: int) -> Usage:
    """Return the usage of a process and its descendants; reaped ones count with their time."""
    first = psutil.Process(pid)
    cpu, rss, pss = 0.0, 0, 0
    for process in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times, memory = process.cpu_times(), process.memory_full_info()
            cpu += times.user + times.system + times.children_user + times.children_system
            rss += memory.rss
            pss += memory.pss
    return Usage(cpu, rss, pss)


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


def measure(states: list[StackState], seconds: float) -> list[dict[str, Usage]]:
    """Return the usage of each service of each stack, the time being that of ``seconds``."""
    pids = [
        {each.name.value: each.process.pid for each in state.services if each.process.is_alive}
        | {"up": state.supervisor.pid}
        for state in states
    ]
    before = [{name: _alone(name, pid) for name, pid in each.items()} for each in pids]
    time.sleep(seconds)
    after = [{name: _alone(name, pid) for name, pid in each.items()} for each in pids]
    return [
        {
            name: Usage(last[name].cpu - first[name].cpu, last[name].rss, last[name].pss)
            for name in last
        }
        for first, last in zip(before, after, strict=True)
    ]


def _alone(name: str, pid: int) -> Usage:
    if name != "up":
        return usage_of(pid)
    process = psutil.Process(pid)  # its children are the services
    times, memory = process.cpu_times(), process.memory_full_info()
    return Usage(times.user + times.system, memory.rss, memory.pss)


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
    parser.add_argument("--before", type=Path, help="another checkout, measured first")
    options = parser.parse_args()
    checkouts = [*([options.before.resolve()] if options.before else []), REPOSITORY]
    with contextlib.ExitStack() as stacks:
        states = [stacks.enter_context(running_stack(checkout)) for checkout in checkouts]
        time.sleep(SETTLE_SECONDS)
        report(measure(states, options.seconds), options.seconds)


if __name__ == "__main__":
    main()
