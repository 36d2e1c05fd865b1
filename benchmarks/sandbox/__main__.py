"""Throughput of the sandbox, compared with a plain server without isolation.

Starts both, drives them in turn from a separate process, and prints for every program and
concurrency: correct results per second, latency, CPU time per call and memory of the server with
all its processes, failures, and the ratios of the two. Run from the repository root:

    python -m benchmarks.sandbox
    python -m benchmarks.sandbox --programs print numpy --concurrency 1 64 --seconds 3
"""

import argparse
import contextlib
import platform

import psutil

from benchmarks.sandbox import report
from benchmarks.sandbox.measurement import Cell, Plan, measure
from benchmarks.sandbox.plain_server import CONCURRENCY
from benchmarks.sandbox.programs import PROGRAMS, Program
from benchmarks.sandbox.servers import our_service, plain_server
from benchmarks.serving.accounting import SAMPLE_SECONDS
from benchmarks.serving.server import Server


def main() -> None:
    """Run the benchmark."""
    given = _arguments()
    plan = Plan(seconds=given.seconds, reconnect=given.reconnect)
    cells: list[Cell] = []
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(our_service()) if given.only != "plain" else None
        _introduce(ours)
        for program in (PROGRAMS[name] for name in given.programs):
            for concurrency in given.concurrency:
                plain_cell = _measure_plain(program, concurrency, plan, given)
                if ours is None:
                    continue
                cell = measure(ours, program, concurrency, plan)
                _show("ours", cell, given)
                cells.append(cell)
                if plain_cell is not None:
                    print(report.ratios(cell, plain_cell), flush=True)
    for line in report.verdicts(cells):
        print(line)


def _measure_plain(
    program: Program, concurrency: int, plan: Plan, given: argparse.Namespace
) -> Cell | None:
    if given.only == "ours":
        return None
    # A fresh server for each cell: it keeps working on calls whose clients have given up.
    with plain_server() as server:
        cell = measure(server, program, concurrency, plan)
    _show("plain", cell, given)
    return cell


def _show(server: str, cell: Cell, given: argparse.Namespace) -> None:
    print(report.row(server, cell), flush=True)
    if cell.observed.example:
        print(f"{'':<15}{server}: for example {cell.observed.example}")
    if given.breakdown:
        print(report.breakdown(server, cell), flush=True)


def _introduce(ours: Server | None) -> None:
    memory = psutil.virtual_memory().total / 2**30
    print(
        f"{psutil.cpu_count()} processors, {memory:.0f} GiB, Linux {platform.release()},"
        f" Python {platform.python_version()}; plain: {CONCURRENCY} processes at once"
    )
    if ours is not None:
        idle = ours.usage.take_peak() / 2**20
        print(f"ours: ready after {ours.start_seconds:.1f} s, {idle:.0f} MB when idle")
        print(
            f"CPU time: {ours.usage.method}; memory: PSS of all processes every {SAMPLE_SECONDS} s"
        )
    print(report.HEAD, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sandbox", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--programs",
        nargs="+",
        choices=PROGRAMS,
        default=list(PROGRAMS),
        metavar="NAME",
        help=f"some of {', '.join(PROGRAMS)}",
    )
    parser.add_argument(
        "--concurrency",
        nargs="+",
        type=int,
        default=[1, 16, 64, 256],
        metavar="NUMBER",
        help="calls in flight",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="measured time per line")
    parser.add_argument("--only", choices=["ours", "plain"], help="drive one of the two")
    parser.add_argument(
        "--reconnect",
        action="store_true",
        help="a connection per call, as most tool clients do",
    )
    parser.add_argument("--breakdown", action="store_true", help="show where a run's time goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
