"""A server process: standalone, or one of several behind a port.

As one of several it is started by `services.retrieval.server.supervisor` with the descriptors of
its sockets and the folder shared with its parent and siblings.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path

import uvloop
from prometheus_client import CollectorRegistry

from services.core.logging import configure_logging
from services.core.web.serving import create_server
from services.retrieval.app import create_retrieval
from services.retrieval.default_index.building import building_default_index
from services.retrieval.engine.encoders import EncoderPool
from services.retrieval.engine.engine import SearchEngine
from services.retrieval.parent import die_with_parent
from services.retrieval.server.ipc import BuiltFlag, ask_for_encoder
from services.retrieval.server.shared_metrics import SharedRegistry, serve_metrics
from services.retrieval.settings import RetrievalSettings


def serve_alone(settings: RetrievalSettings, sockets: list[socket.socket]) -> None:
    """Serve as the only process, until a signal."""
    _run(_serve_alone(settings, sockets))


def main() -> int:
    """Serve as one of several processes, until the parent stops it or dies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--sockets", type=int, nargs="+", required=True)
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)
    exit_on_signals()
    settings = RetrievalSettings()
    configure_logging(settings.log_level, settings.log_json)
    sockets = [socket.socket(fileno=each) for each in arguments.sockets]
    try:
        _run(_serve_among_others(settings, sockets, arguments.folder, arguments.number))
    finally:
        if os.getppid() != arguments.parent:  # the parent was killed and could not clean up
            shutil.rmtree(arguments.folder, ignore_errors=True)
    return 0


async def _serve_alone(settings: RetrievalSettings, sockets: list[socket.socket]) -> None:
    built = asyncio.Event()
    folder, default = settings.indexes_folder, settings.retrieval_index
    pool = EncoderPool(settings.runtimes_folder, settings.home / "logs")
    with contextlib.closing(pool):
        engine = SearchEngine(settings, pool.socket_of, lambda: not built.is_set())
        app = create_retrieval(settings, engine, CollectorRegistry())
        async with building_default_index(folder, default, built):
            await create_server(app).serve(sockets)


async def _serve_among_others(
    settings: RetrievalSettings, sockets: list[socket.socket], folder: Path, number: int
) -> None:
    registry = SharedRegistry(folder, number)
    built = BuiltFlag(folder)
    engine = SearchEngine(settings, partial(ask_for_encoder, folder), lambda: not built.is_set())
    app = create_retrieval(settings, engine, registry)
    async with serve_metrics(folder, number, registry):
        await create_server(app).serve(sockets)


def _run(serving: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)


def exit_on_signals() -> None:
    """Raise SystemExit on SIGTERM and SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _signal, _frame: sys.exit(0))


if __name__ == "__main__":
    sys.exit(main())
