"""A load generator's report to the process that started it."""

from pydantic import BaseModel


class Observed(BaseModel):
    """What one measurement showed; times are seconds.

    Every call counts once: ``ok``; ``wrong``, another answer than the right one; ``failed``, what
    was to be run or the service; ``refused``; ``timed_out``, the client's patience; ``errors``, any
    other. ``rate`` is what was answered rightly a second of the measured time; calls under way at
    its end are waited for, and count in everything else. ``p50`` and ``p99`` are of the ``ok`` and
    the ``timed_out``, the latter taken as having lasted as long as the patience. ``example`` is the
    first answer that was not right.
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
        """The calls whose answers came, with those of the warm-up."""
        return self.ok + self.wrong + self.failed + self.warm_up

    @property
    def not_ok(self) -> dict[str, int]:
        """What went wrong, and how often."""
        kinds = ("wrong", "failed", "refused", "timed_out", "errors")
        return {kind: count for kind in kinds if (count := getattr(self, kind))}
