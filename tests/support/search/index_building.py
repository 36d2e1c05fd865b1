"""Index builds in child processes that tests kill."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from services.contracts.retrieval.index_messages import MESSAGE_FILE, MODULE, BuildIndex, IndexBuilt
from services.contracts.retrieval.indexes import IndexMode, IndexSpecification
from services.core.process.reporter import REPORTS, RESULT
from services.retrieval.store.store import IndexStore
from tests.support.processes import REPOSITORY
from tests.support.runtimes import FOLDER

DEADLINE = 120.0
_builds = count()


class IndexFolder:
    """A folder of indexes, and the orders that are given to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.indexes = path / "indexes"
        self.store = IndexStore(self.indexes)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "TEMPER_HOME": str(self.path / "home"),
            "TEMPER_RETRIEVAL_INDEXES": str(self.indexes),
            "TEMPER_RUNTIMES": str(FOLDER),
        }

    def corpus(self, name: str, rows: Sequence[dict[str, Any]]) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        path.write_text("".join(lines), encoding="utf-8")
        return path

    def order(self, index: str, corpus: Path, mode: IndexMode = IndexMode.BM25) -> "IndexOrder":
        """A new order for an index; carrying it out is up to the test."""
        folder = self.path / "orders" / f"{next(_builds)}"
        folder.mkdir(parents=True)
        build = BuildIndex(
            index=index,
            corpus=corpus,
            corpus_name=corpus.name,
            specification=IndexSpecification(mode=mode),
            build=folder.name,
        )
        (folder / MESSAGE_FILE).write_text(build.model_dump_json())
        return IndexOrder(folder, self.environment)

    def ids(self, index: str) -> list[str]:
        """The ids of all passages of an index, in their order."""
        opened = self.store.open(index)
        assert opened.problem is None
        try:
            return [str(json.loads(row)["id"]) for row in opened.index.documents(None, 100_000)]
        finally:
            opened.index.close()


class IndexOrder:
    """An order in its folder, and the process that carries it out."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._environment = environment

    @contextlib.contextmanager
    def process(self, *launcher: str) -> Iterator["subprocess.Popen[bytes]"]:
        with open(self.folder / "log.txt", "ab") as log:
            process = subprocess.Popen(
                [*launcher, sys.executable, "-m", MODULE, str(self.folder)],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE)

    def run(self, *launcher: str) -> None:
        """Carry it out to its end."""
        with self.process(*launcher) as process:
            process.wait(DEADLINE)
        assert (self.folder / RESULT).exists(), (self.folder / "log.txt").read_text()

    def built(self) -> IndexBuilt:
        result = json.loads((self.folder / RESULT).read_bytes())
        assert result["status"] == "succeeded", result
        return IndexBuilt.model_validate(result)

    def failure(self) -> dict[str, Any]:
        result = json.loads((self.folder / RESULT).read_bytes())
        assert result["status"] == "failed", result
        return dict(result["error"])

    def reports(self, kind: str) -> list[dict[str, Any]]:
        text = (self.folder / REPORTS).read_text(encoding="utf-8")
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last may be half written
        return [report for report in map(json.loads, lines) if report["type"] == kind]


def rows(number: int, word: str = "passage") -> list[dict[str, Any]]:
    """Rows with an id, a distinct number and a word that all share."""
    return [
        {"id": f"{word}-{n}", "title": f"{word} {n}", "text": f"{word} {n}"} for n in range(number)
    ]
