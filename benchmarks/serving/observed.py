"""A load generator's report to the process that started it."""

from pydantic import BaseModel


class Observed(BaseModel):
    """The results of one measurement; times are seconds.

    Every call counts once: ``ok``; ``wrong``, an incorrect result; ``failed``, an error of the
    program or service; ``refused``; ``timed_out``, the client's timeout; ``errors``, any other.
    ``rate`` is correct results per second of the measured time; calls in flight at its end are
    awaited and count in everything else. ``p50`` and ``p99`` are of the ``ok`` and ``timed_out``
    calls, the latter taken at the client's timeout. ``example`` is the first response that was not
    correct.
    """

    ok: int = 0
    wrong: int = 0
    failed: int = 0
    refused: int = 0
    timed_out: int = 0
    errors: int = 0
    warm_up: int = 0
    rate: float = 0.0
    p50: float = float("nan")
    p99: float = float("nan")
    client_cpu: float = 0.0
    example: str = ""

    @property
    def answered(self) -> int:
        """Return the number of answered calls, including warm-up."""
        return self.ok + self.wrong + self.failed + self.warm_up

    @property
    def not_ok(self) -> dict[str, int]:
        """Return the failures by kind."""
        kinds = ("wrong", "failed", "refused", "timed_out", "errors")
        return {kind: count for kind in kinds if (count := getattr(self, kind))}
