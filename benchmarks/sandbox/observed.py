"""The load generator's report on programs."""

from benchmarks.serving.observed import Observed


class ObservedRuns(Observed):
    """``rate`` is in programs; ``execution_p50`` what the sandbox says that they took."""

    execution_p50: float = float("nan")
