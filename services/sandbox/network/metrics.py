"""Figures of the proxy for Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from services.sandbox.network.connecting import Result
from services.sandbox.network.proxy import Network


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
