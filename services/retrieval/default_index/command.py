"""Builds the default index, Python's documentation, if it is missing.

python -m services.retrieval.default_index.command INDEXES_FOLDER
"""

import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from services.contracts.errors import TemperError
from services.contracts.retrieval.index_messages import BuildIndex
from services.contracts.retrieval.indexes import IndexMode, IndexSpecification
from services.core.process.reporter import Reporter
from services.retrieval.builder.build import BuildContext, build_index
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.default_index.building import DEFAULT_INDEX
from services.retrieval.default_index.documentation import rows
from services.retrieval.encoder.specification import EncoderSpecification
from services.retrieval.store.store import IndexStore


def ensure_default_index(root: Path) -> None:
    """Build the index unless it exists; takes seconds.

    Concurrent callers wait for the one that builds. Raises `IndexBusy` and `StorageFull`.
    """
    store = IndexStore(root)
    if store.version(DEFAULT_INDEX) is not None:
        return
    with tempfile.TemporaryDirectory(prefix="temper-") as name:
        folder = Path(name)
        corpus = folder / "python.jsonl"
        with open(corpus, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
        request = BuildIndex(
            index=DEFAULT_INDEX,
            corpus=corpus,
            corpus_name=corpus.name,
            specification=IndexSpecification(mode=IndexMode.BM25),
            build=f"documentation of Python {platform.python_version()}",
        )
        build_index(request, BuildContext(store, _no_encoder), BuildProgress(Reporter(folder)))


def _no_encoder(specification: EncoderSpecification) -> NoReturn:
    raise AssertionError(f"a BM25 index needs no encoder: {specification.model}")


def main(root: Path) -> int:
    """Build the index if missing; on failure the last line of stderr is the reason."""
    try:
        ensure_default_index(root)
    except TemperError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
