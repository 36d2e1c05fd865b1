"""Measurements of programs."""

from benchmarks.serving.observed import Observed


class ObservedRuns(Observed):
    """``rate`` is in programs per second; ``execution_p50`` is the time reported by the sandbox."""

    execution_p50: float = float("nan")
