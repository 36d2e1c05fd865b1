"""The metrics of several processes, complete from whichever is scraped."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

SIBLING_SECONDS = 1.0
LABEL = "process"


class SharedRegistry(CollectorRegistry):
    """Metrics of this process and its siblings, labeled by ``process``.

    A sibling that does not answer in time is left out.
    """

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__()
        self._folder = folder
        self._number = number

    def collect(self) -> Iterator[Metric]:
        """Collect from all processes."""
        families: dict[str, Metric] = {}
        for number, text in self._texts():
            for family in text_string_to_metric_families(text):
                known = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                for sample in family.samples:
                    labels = {**sample.labels, LABEL: str(number)}
                    known.samples.append(sample._replace(labels=labels))
        yield from families.values()

    def own(self) -> bytes:
        """This process's metrics in the text format."""
        alone = CollectorRegistry()
        for family in super().collect():
            alone.register(_Collected(family))
        return generate_latest(alone)

    def _texts(self) -> Iterator[tuple[int, str]]:
        yield self._number, self.own().decode()
        for path in sorted(self._folder.glob("metrics-*")):
            number = int(path.name.rpartition("-")[2])
            if number != self._number:
                with suppress(OSError):
                    yield number, _read(path).decode()


class _Collected:
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


@asynccontextmanager
async def serve_metrics(folder: Path, number: int, registry: SharedRegistry) -> AsyncIterator[None]:
    """Serve this process's metrics to its siblings, within the block."""

    async def respond(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(registry.own())
            async with asyncio.timeout(SIBLING_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError):
            return
        finally:
            writer.close()

    path = folder / f"metrics-{number}"
    path.unlink(missing_ok=True)  # left behind by a killed predecessor
    listening = await asyncio.start_unix_server(respond, path)
    try:
        yield
    finally:
        listening.close()


def _read(path: Path) -> bytes:
    pieces = []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SIBLING_SECONDS)
        connection.connect(str(path))
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)
