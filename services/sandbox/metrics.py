"""Prometheus metrics of the sandbox."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.contracts.sandbox_sessions import CellStatus
from services.sandbox.admission import Admission
from services.sandbox.execution import Ending, Outcome
from services.sandbox.languages.cache import CompileCache
from services.sandbox.network.connecting import Result
from services.sandbox.network.proxy import Network

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class RunMetrics:
    """What came of programs, by language."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs = Counter(
            "temper_sandbox_runs",
            "Programs run, by what came of them",
            ("language", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "temper_sandbox_run_seconds",
            "Time that programs ran",
            ("language",),
            registry=registry,
            buckets=SECONDS,
        )
        self._waited = Histogram(
            "temper_sandbox_wait_seconds",
            "Time that requests waited for a place",
            registry=registry,
            buckets=SECONDS,
        )

    def waited(self, seconds: float) -> None:
        """Count a request that got its place."""
        self._waited.observe(seconds)

    def ran(self, language: str, outcome: Outcome) -> None:
        """Count a program that ran."""
        self._seconds.labels(language).observe(outcome.wall_seconds)
        self._runs.labels(language, _status(outcome)).inc()

    def not_run(self, language: str, status: str) -> None:
        """Count a program that was not run: ``status`` says why."""
        self._runs.labels(language, status).inc()


def _status(outcome: Outcome) -> str:
    if outcome.ending is Ending.EXITED:
        return "success" if outcome.return_code == 0 else "failed"
    return outcome.ending.value


class QueueMetrics(Collector):
    """The queue and the cache of compiled programs, read when they are asked for."""

    def __init__(self, admission: Admission, cache: CompileCache) -> None:
        self._admission = admission
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Read the figures."""
        admission, cache = self._admission, self._cache
        gauges = {
            "places": (admission.places, "Programs that may run at once"),
            "running": (admission.running, "Places that are taken"),
            "queue_length": (admission.waiting, "Requests that wait for a place"),
            "compile_cache_entries": (cache.entries, "Compiled programs that are kept"),
            "compile_cache_bytes": (cache.held_bytes, "Bytes of compiled programs that are kept"),
        }
        for name, (value, meaning) in gauges.items():
            yield GaugeMetricFamily(f"temper_sandbox_{name}", meaning, value=value)
        refused = CounterMetricFamily(
            "temper_sandbox_refused", "Requests without a place in time", labels=["when"]
        )
        refused.add_metric(["at_once"], admission.figures.refused_at_once)
        refused.add_metric(["after_waiting"], admission.figures.refused_after_waiting)
        yield refused
        compiled = CounterMetricFamily(
            "temper_sandbox_compilations", "Compilations asked for, by how", labels=["found"]
        )
        compiled.add_metric(["kept"], cache.hits)
        compiled.add_metric(["under_way"], cache.shared)
        compiled.add_metric(["not_at_all"], cache.misses)
        yield compiled


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


class NetworkMetrics(Collector):
    """What came of the connections that programs asked for, read when it is asked for."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def collect(self) -> Iterator[Metric]:
        """Read the figures."""
        connections = CounterMetricFamily(
            "temper_sandbox_network_connections",
            "Connections that programs asked the proxy for",
            labels=["result"],
        )
        for result in Result:
            connections.add_metric([result], self._network.results[result])
        yield connections
