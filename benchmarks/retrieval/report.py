"""The measurements as a table, with the goals."""

from dataclasses import dataclass

from benchmarks.retrieval.measurement import Cell

HEAD = (
    f"{'mode':<7} {'queries':>7} {'at':>4} {'server':<10} {'queries/s':>9} {'p50 ms':>8}"
    f" {'p99 ms':>8} {'CPU ms/req':>10} {'peak MB':>8} {'client ms':>9} {'others':>6} {'hits':>5}"
    "  not ok"
)


@dataclass(frozen=True)
class Verdict:
    """A goal, and its measured value."""

    goal: str
    seen: str
    reached: bool

    def __str__(self) -> str:
        word = "reached" if self.reached else "MISSED"
        return f"{word:<8} {self.goal} ({self.seen})"


def row(server: str, cell: Cell) -> str:
    """Return one server's row of a cell."""
    ask, seen = cell.ask, cell.observed
    bad = ", ".join(f"{count} {kind}" for kind, count in seen.not_ok.items()) or "-"
    return (
        f"{ask.mode:<7} {ask.together:>7} {ask.concurrency:>4} {server:<10} {seen.rate:>9.1f}"
        f" {1000 * seen.p50:>8.1f} {1000 * seen.p99:>8.1f}"
        f" {cell.per_request(cell.cpu.total):>10.2f}"
        f" {cell.peak_bytes / 2**20:>8.0f} {cell.per_request(seen.client_cpu):>9.3f}"
        f" {cell.elsewhere:>6.0%} {seen.hits:>5.1f}  {bad}"
    )


def ratios(ours: Cell, other: Cell) -> str:
    """Return the row below both servers of a cell."""
    pairs = [
        (9, ours.observed.rate, other.observed.rate),
        (8, ours.observed.p50, other.observed.p50),
        (8, ours.observed.p99, other.observed.p99),
        (10, ours.per_request(ours.cpu.total), other.per_request(other.cpu.total)),
        (8, ours.peak_bytes, other.peak_bytes),
    ]
    metrics = " ".join(
        f"{mine / theirs:>{width}.2f}" if theirs else f"{'-':>{width}}"
        for width, mine, theirs in pairs
    )
    return f"{'':<7} {'':>7} {'':>4} {'ratio':<10} {metrics}"


def against_libraries(ours: Cell, in_process: float, passages: int) -> Verdict:
    """Compare the whole service with its libraries called directly."""
    share = ours.observed.rate / in_process
    return Verdict(
        f"{_place(ours)}, {passages:,} passages: at least 0.7 of the libraries in process",
        f"{share:.2f}: {ours.observed.rate:.0f} of {in_process:.0f} queries/s",
        share >= 0.7,
    )


def against_one_by_one(ours: Cell, reference: Cell, encoding: str) -> Verdict:
    """Compare the service with one request at a time."""
    ratio = ours.observed.rate / max(reference.observed.rate, 1e-9)
    return Verdict(
        f"{_place(ours)}: at least 5 times one request at a time, {encoding} encoding",
        f"{ratio:.1f}",
        ratio >= 5,
    )


def alone(ours: Cell) -> Verdict:
    """Judge the latency of a single request."""
    p99 = 1000 * ours.observed.p99
    return Verdict(f"{_place(ours)}: p99 under 10 ms", f"{p99:.1f} ms", p99 < 10)


def _place(cell: Cell) -> str:
    ask = cell.ask
    each = "" if ask.together == 1 else f" with {ask.together} queries each"
    return f"{ask.mode} at {ask.concurrency}{each}"
