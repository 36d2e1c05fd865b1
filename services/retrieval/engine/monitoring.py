"""Prometheus metrics and health checks of the engine."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.retrieval.engine.encoders import check_same
from services.retrieval.engine.engine import SearchEngine
from services.retrieval.engine.served import deadline_in


class EngineMetrics(Collector):
    """Collects the engine's counters on scrape."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Read the counters."""
        cache, admission = self._engine.cache.stats, self._engine.admission
        gauges = {
            "queries_under_way": (admission.in_flight, "Queries in work or waiting"),
            "cache_entries": (cache.entries, "Queries whose hits are kept"),
            "cache_bytes": (cache.held_bytes, "Bytes of hits that are kept"),
            "indexes": (self._engine.catalog.opened, "Indexes that are open"),
        }
        for name, (value, meaning) in gauges.items():
            yield GaugeMetricFamily(f"temper_retrieval_{name}", meaning, value=value)
        counters = {
            "cache_hits": (cache.hits, "Queries whose hits were kept"),
            "cache_misses": (cache.misses, "Queries whose hits were not kept"),
            "refused": (admission.refused, "Requests refused because of the load"),
        }
        for name, (value, meaning) in counters.items():
            yield CounterMetricFamily(f"temper_retrieval_{name}", meaning, value=value)
        yield from self._batches()

    def _batches(self) -> Iterator[Metric]:
        stats = self._engine.stats
        stages = {"encode": stats.encoded, "search": stats.searched}
        yield _by_stage("batches", "Batcher begun", {k: v.batches for k, v in stages.items()})
        queries = {stage: stats.weight for stage, stats in stages.items()}
        yield _by_stage("batched_queries", "Queries in batches", queries)
        abandoned = {stage: stats.abandoned for stage, stats in stages.items()}
        meaning = "Parts of requests that nobody waited for any more"
        yield _by_stage("abandoned", meaning, abandoned)


def _by_stage(name: str, meaning: str, values: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"temper_retrieval_{name}", meaning, labels=["stage"])
    for stage, value in values.items():
        family.add_metric([stage], value)
    return family


CHECK_SECONDS = 3.0


class IndexCheck:
    """A health check: the default index is open, unless it was deleted while it was served."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    async def check(self) -> None:
        """Raise the reason when it is not."""
        if not self._engine.catalog.default_was_dropped:
            await self._engine.catalog.get(None)


class EncoderCheck:
    """A health check: the default index, if it has vectors, has its encoder."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    async def check(self) -> None:
        """Raise when queries cannot be encoded."""
        served = self._engine.catalog.get_open(None)
        if served is not None and served.encoder is not None:
            client = await self._engine.encoders.client(served.encoder)
            await check_same(client, served.encoder, deadline_in(CHECK_SECONDS))
