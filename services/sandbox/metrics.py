"""Prometheus metrics of the sandbox."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.contracts.sandbox.sessions import CellStatus
from services.sandbox.admission import Admission
from services.sandbox.execution import ExitReason, Outcome
from services.sandbox.languages.cache import CompileCache
from services.sandbox.network.connecting import Result
from services.sandbox.network.proxy import Network

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class RunMetrics:
    """Results of programs, by language."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs = Counter(
            "temper_sandbox_runs",
            "Programs run, by result",
            ("language", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "temper_sandbox_run_seconds",
            "Wall-clock time of programs",
            ("language",),
            registry=registry,
            buckets=SECONDS,
        )
        self._waited = Histogram(
            "temper_sandbox_wait_seconds",
            "Time that requests waited for a slot",
            registry=registry,
            buckets=SECONDS,
        )

    def waited(self, seconds: float) -> None:
        """Observe the queueing time of an admitted request."""
        self._waited.observe(seconds)

    def ran(self, language: str, outcome: Outcome) -> None:
        """Count a program that ran."""
        self._seconds.labels(language).observe(outcome.wall_seconds)
        self._runs.labels(language, _status(outcome)).inc()

    def not_run(self, language: str, status: str) -> None:
        """Count a program that was not run; ``status`` says why."""
        self._runs.labels(language, status).inc()


def _status(outcome: Outcome) -> str:
    if outcome.exit_reason is ExitReason.EXITED:
        return "success" if outcome.return_code == 0 else "failed"
    return outcome.exit_reason.value


class QueueMetrics(Collector):
    """The queue and the compile cache, read at scrape time."""

    def __init__(self, admission: Admission, cache: CompileCache) -> None:
        self._admission = admission
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Read the current values."""
        admission, cache = self._admission, self._cache
        gauges = {
            "places": (admission.slots, "Programs that can run concurrently"),
            "running": (admission.running, "Slots in use"),
            "queue_length": (admission.waiting, "Requests waiting for a slot"),
            "compile_cache_entries": (cache.entries, "Cached compiled programs"),
            "compile_cache_bytes": (cache.held_bytes, "Bytes of cached compiled programs"),
        }
        for name, (value, meaning) in gauges.items():
            yield GaugeMetricFamily(f"temper_sandbox_{name}", meaning, value=value)
        refused = CounterMetricFamily(
            "temper_sandbox_refused", "Requests that got no slot in time", labels=["when"]
        )
        refused.add_metric(["at_once"], admission.stats.refused_immediately)
        refused.add_metric(["after_waiting"], admission.stats.refused_after_waiting)
        yield refused
        compiled = CounterMetricFamily(
            "temper_sandbox_compilations",
            "Compilations requested, by cache result",
            labels=["found"],
        )
        compiled.add_metric(["kept"], cache.hits)
        compiled.add_metric(["under_way"], cache.shared)
        compiled.add_metric(["not_at_all"], cache.misses)
        yield compiled


class SessionMetrics:
    """Open sessions, and results of cells."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.open = Gauge("temper_sandbox_sessions", "Open sessions", registry=registry)
        self._cells = Counter(
            "temper_sandbox_cells",
            "Cells of sessions, by result",
            ("status",),
            registry=registry,
        )

    def ran(self, status: CellStatus) -> None:
        """Count a cell."""
        self._cells.labels(status.value).inc()


class NetworkMetrics(Collector):
    """Results of the connections that programs requested from the proxy, read at scrape time."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def collect(self) -> Iterator[Metric]:
        """Read the current values."""
        connections = CounterMetricFamily(
            "temper_sandbox_network_connections",
            "Connections that programs requested, by result",
            labels=["result"],
        )
        for result in Result:
            connections.add_metric([result], self._network.results[result])
        yield connections
