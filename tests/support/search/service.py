"""The real retrieval service over real indexes."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from services.contracts.retrieval.index_messages import MESSAGE_FILE, MODULE, BuildIndex
from services.contracts.retrieval.indexes import IndexMode, IndexSpecification
from services.core.process.reporter import RESULT
from tests.support.corpora import debian
from tests.support.corpora.passage import CorpusMissing, Passage, write_rows
from tests.support.processes import REPOSITORY, Process, running_service
from tests.support.runtimes import FOLDER, installed_runtime

ANSWER_SECONDS = 60.0
BUILD_SECONDS = 300.0


@dataclass(frozen=True)
class Retrieval:
    """A running service, and the passages of its default index where the test gave them."""

    url: str
    http: httpx.Client
    process: Process
    passages: Sequence[Passage] = ()

    def retrieve(self, *queries: str, **fields: Any) -> list[list[Any]]:
        """Search by the published contract; the request must be valid."""
        answer = self.http.post("/retrieve", json={"queries": list(queries), **fields})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["result"])

    def search(self, query: str, **fields: Any) -> list[dict[str, Any]]:
        """Search by our own contract for one query; the request must be valid."""
        answer = self.http.post("/v1/search", json={"query": query, **fields})
        assert answer.status_code == 200, answer.text
        (hits,) = answer.json()["results"]
        return list(hits)

    def found(self, query: str, **fields: Any) -> list[str]:
        """The ids that a search finds, best first."""
        return [hit["document"]["id"] for hit in self.search(query, **fields)]


@contextlib.contextmanager
def running_retrieval(
    folder: Path, indexes: Path, index: str, passages: Sequence[Passage] = (), **settings: str
) -> Iterator[Retrieval]:
    """A service on a free port with its log in ``folder``, once it is ready.

    It serves the indexes of a folder, ``index`` by default. ``settings`` are environment variables.
    """
    env = {
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_RUNTIMES": str(FOLDER),
        "TEMPER_RETRIEVAL_INDEXES": str(indexes),
        "TEMPER_RETRIEVAL_INDEX": index,
        **settings,
    }
    log = folder / "retrieval.log"
    with (
        running_service("services.retrieval", env, log) as (process, url),
        httpx.Client(base_url=url, timeout=ANSWER_SECONDS) as http,
    ):
        yield Retrieval(url, http, process, passages)


def build_index(
    indexes: Path,
    name: str,
    passages: Iterable[Passage],
    mode: IndexMode = IndexMode.BM25,
    **specification: Any,
) -> None:
    """Build an index in a child process; skips when the mode needs a missing runtime."""
    if mode is not IndexMode.BM25:
        installed_runtime("encoder")
    with tempfile.TemporaryDirectory(prefix="temper-build-") as scratch:
        corpus = Path(scratch) / "corpus.jsonl"
        write_rows(passages, corpus)
        chosen = IndexSpecification(mode=mode, **specification)
        build_from_file(indexes, name, corpus, chosen, Path(scratch))


def build_from_file(
    indexes: Path, name: str, corpus: Path, specification: IndexSpecification, folder: Path
) -> None:
    """Build an index from a corpus; the order and its reports are in ``folder``."""
    order = BuildIndex(
        index=name,
        corpus=corpus,
        corpus_name=corpus.name,
        specification=specification,
        build=uuid4().hex,
    )
    (folder / MESSAGE_FILE).write_text(order.model_dump_json())
    ended = subprocess.run(
        [sys.executable, "-m", MODULE, str(folder)],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "TEMPER_HOME": str(folder / "home"),
            "TEMPER_RUNTIMES": str(FOLDER),
            "TEMPER_RETRIEVAL_INDEXES": str(indexes),
        },
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    result = json.loads((folder / RESULT).read_bytes())
    assert result["status"] == "succeeded", result


def real_passages(count: int) -> list[Passage]:
    """So many descriptions of Debian packages; skips where they could not be fetched."""
    try:
        return list(islice(debian.passages(), count))
    except CorpusMissing as error:
        pytest.skip(str(error))
