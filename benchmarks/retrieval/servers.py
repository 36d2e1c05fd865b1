"""The servers under comparison, each running on a free port for its block."""

import contextlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from benchmarks.serving.server import Server, free_port, running


@contextlib.contextmanager
def our_service(indexes: Path, index: str, settings: Mapping[str, str]) -> Iterator[Server]:
    """Run the retrieval service with one default index and extra environment settings."""
    port = free_port()
    command = [sys.executable, "-m", "services.retrieval", "--port", str(port)]
    environment = {
        "TEMPER_RETRIEVAL_INDEXES": str(indexes),
        "TEMPER_RETRIEVAL_INDEX": index,
        **settings,
    }
    with running(command, port, environment, _search(port)) as server:
        yield server


@contextlib.contextmanager
def reference_server(index: Path, mode: str, encoding: str, python: Path) -> Iterator[Server]:
    """Run the baseline over the same index."""
    port = free_port()
    module = "benchmarks.retrieval.reference_server"
    command = with_packages(python, module, str(port), str(index), mode, encoding)
    with running(command, port, {}, _search(port)) as server:
        yield server


def with_packages(python: Path, module: str, *arguments: str) -> list[str]:
    """Return a command that runs a module with an interpreter that also finds our packages."""
    start = (
        "import runpy, sys; sys.path.append(sys.argv[1]); del sys.argv[:2];"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    packages = sysconfig.get_paths()["purelib"]
    return [str(python), "-c", start, packages, module, *arguments]


def _search(port: int) -> httpx.Request:
    body = {"queries": ["first"], "topk": 1}
    return httpx.Request("POST", f"http://127.0.0.1:{port}/retrieve", json=body)
