"""The measurements as a table, with the goals."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.sandbox.measurement import Cell

HEAD = (
    f"{'program':<10} {'at':>3} {'server':<6} {'runs/s':>7} {'p50 ms':>8} {'p99 ms':>8}"
    f" {'CPU ms/run':>10} {'peak MB':>8} {'client ms':>9} {'others':>6}  not ok"
)


@dataclass(frozen=True)
class Goal:
    """A goal for a cell of the table."""

    program: str
    concurrency: int
    text: str
    least_rate: float = 0.0
    most_p50: float = float("inf")
    nothing_refused: bool = False

    def reached_by(self, cell: Cell) -> bool:
        """Whether the measurement meets it."""
        seen = cell.observed
        clean = not (seen.refused or seen.timed_out or seen.errors)
        return (
            seen.rate >= self.least_rate
            and seen.p50 < self.most_p50
            and (clean or not self.nothing_refused)
        )


GOALS = [
    Goal("print", 64, "at least 200 runs/s", least_rate=200),
    Goal("print", 64, "the aim of 300 runs/s", least_rate=300),
    Goal("print", 1, "p50 under 3 ms", most_p50=0.003),
    Goal("numpy", 64, "at least 150 runs/s", least_rate=150),
    Goal("sympy", 64, "at least 80 runs/s", least_rate=80),
    *(
        Goal(program, 256, "nothing refused, no timeout", nothing_refused=True)
        for program in ("print", "numpy", "sympy", "cpp")
    ),
]


def row(server: str, cell: Cell) -> str:
    """One server's row of a cell."""
    seen = cell.observed
    bad = ", ".join(f"{count} {kind}" for kind, count in seen.not_ok.items()) or "-"
    return (
        f"{cell.program:<10} {cell.concurrency:>3} {server:<6} {seen.rate:>7.1f}"
        f" {1000 * seen.p50:>8.1f} {1000 * seen.p99:>8.1f} {cell.cpu_per_run:>10.2f}"
        f" {cell.peak_bytes / 2**20:>8.0f} {cell.per_run(seen.client_cpu):>9.2f}"
        f" {cell.elsewhere:>6.0%}  {bad}"
    )


def ratios(ours: Cell, plain: Cell) -> str:
    """The row below both servers of a cell."""
    pairs = [
        (7, ours.observed.rate, plain.observed.rate),
        (8, ours.observed.p50, plain.observed.p50),
        (8, ours.observed.p99, plain.observed.p99),
        (10, ours.cpu_per_run, plain.cpu_per_run),
        (8, ours.peak_bytes, plain.peak_bytes),
    ]
    ratios = " ".join(
        f"{mine / theirs:>{width}.2f}" if theirs else f"{'-':>{width}}"
        for width, mine, theirs in pairs
    )
    return f"{'':<10} {'':>3} {'ratio':<6} {ratios}"


def breakdown(server: str, cell: Cell) -> str:
    """Return where a run's time goes: CPU time by part, and the latency of the median request."""
    cpu, seen = cell.cpu, cell.observed
    programs = cpu.total - cpu.main
    return (
        f"{'':<15}{server}: CPU ms/run {cell.per_run(cpu.main):.2f} in the server's process,"
        f" {cell.per_run(programs):.2f} in others; {cell.per_run(cpu.user):.2f} user,"
        f" {cell.per_run(cpu.system):.2f} system. Median call: the program"
        f" {1000 * seen.execution_p50:.1f} ms, all else"
        f" {1000 * (seen.p50 - seen.execution_p50):.1f} ms"
    )


def verdicts(ours: Iterable[Cell]) -> Iterator[str]:
    """A line for each measured goal."""
    cells = {(cell.program, cell.concurrency): cell for cell in ours}
    for goal in GOALS:
        if cell := cells.get((goal.program, goal.concurrency)):
            seen = cell.observed
            word = "reached" if goal.reached_by(cell) else "MISSED"
            yield (
                f"{word:<8} {goal.program} at {goal.concurrency}: {goal.text}"
                f" ({seen.rate:.0f} runs/s, p50 {1000 * seen.p50:.1f} ms,"
                f" {sum(seen.not_ok.values())} not ok)"
            )
