"""Prometheus metrics of the platform, read from the database on each scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.core.db.engine import Database
from services.core.jobs.store import count_jobs
from services.core.jobs.workers import live_workers


class PlatformMetrics(Collector):
    """Jobs by kind and status, and live workers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterator[Metric]:
        """Describe nothing: the database may not be migrated yet at registration."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Read the metrics from the database."""
        jobs = GaugeMetricFamily(
            "temper_jobs", "Jobs by kind and status", labels=["kind", "status"]
        )
        with self._database.read() as session:
            for kind, status, number in count_jobs(session):
                jobs.add_metric([kind, status], number)
            workers = len(live_workers(session))
        yield jobs
        yield GaugeMetricFamily("temper_workers", "Workers with a recent heartbeat", value=workers)


def create_registry(database: Database) -> CollectorRegistry:
    """A registry for this process, including the platform's metrics."""
    registry = CollectorRegistry()
    registry.register(PlatformMetrics(database))
    return registry
