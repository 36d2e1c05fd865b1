"""Prometheus metrics of the platform, read from the database on each scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.core.db.engine import Database
from services.jobs.events import JobMetrics, latest_metrics
from services.jobs.pause import count_outages
from services.jobs.store import count_jobs
from services.jobs.workers import live_workers

_SOURCE = "infrastructure_failures/"
"""Precedes the source in the names of a job's metrics."""


class PlatformMetrics(Collector):
    """Jobs by kind and status, what failing infrastructure costs them, and live workers."""

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
            running = list(latest_metrics(session))
            waiting = count_outages(session)
        yield jobs
        yield from _losses(running)
        yield GaugeMetricFamily(
            "temper_jobs_in_outage",
            "Jobs paused until what they depend on is available",
            value=waiting,
        )
        yield GaugeMetricFamily("temper_workers", "Workers with a recent heartbeat", value=workers)


def _losses(running: list[JobMetrics]) -> Iterator[Metric]:
    failures = GaugeMetricFamily(
        "temper_infrastructure_failures",
        "Failed calls of tools, rewards and engines, as a running job last reported them",
        labels=["job", "kind", "source"],
    )
    left_out = GaugeMetricFamily(
        "temper_samples_left_out",
        "Samples that the infrastructure lost, as a running job last reported them",
        labels=["job", "kind"],
    )
    for each in running:
        for name, value in each.values.items():
            if name == "samples_left_out":
                left_out.add_metric([each.job_id, each.kind], value)
            elif name.startswith(_SOURCE):
                source = name.removeprefix(_SOURCE)
                failures.add_metric([each.job_id, each.kind, source], value)
    yield from (failures, left_out)


def create_registry(database: Database) -> CollectorRegistry:
    """A registry for this process, including the platform's metrics."""
    registry = CollectorRegistry()
    registry.register(PlatformMetrics(database))
    return registry
