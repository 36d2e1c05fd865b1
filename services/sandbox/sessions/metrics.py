"""Figures of sessions for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from services.contracts.sandbox_sessions import CellStatus


class SessionMetrics:
    """How many sessions there are, and what came of cells."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.open = Gauge(
            "temper_sandbox_sessions", "Sessions that have not ended", registry=registry
        )
        self._cells = Counter(
            "temper_sandbox_cells",
            "Cells of sessions, by what came of them",
            ("status",),
            registry=registry,
        )

    def ran(self, status: CellStatus) -> None:
        """Count a cell."""
        self._cells.labels(status.value).inc()
