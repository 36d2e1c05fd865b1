"""The index that answers when nobody has made one: Python's documentation.

    python -m services.retrieval.default_index.command FOLDER_OF_INDEXES

makes it where it is missing.
"""

import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from services.contracts.errors import TemperError
from services.contracts.index_messages import BuildIndex
from services.contracts.indexes import IndexMode, IndexSpecification
from services.core.process.reporter import Reporter
from services.retrieval.builder.build import Surroundings, build_index
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.default_index.documentation import rows
from services.retrieval.encoder.specification import EncoderSpecification
from services.retrieval.store.store import IndexStore

DEFAULT_INDEX = "python"


def ensure_default_index(root: Path) -> None:
    """Build the index unless there is one of its name; takes seconds.

    Of several processes that do so at once, one builds and the others wait for it. Raises
    `IndexBusy` and `StorageFull`.
    """
    store = IndexStore(root)
    if store.version(DEFAULT_INDEX) is not None:
        return
    with tempfile.TemporaryDirectory(prefix="temper-") as name:
        folder = Path(name)
        corpus = folder / "python.jsonl"
        with open(corpus, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
        order = BuildIndex(
            index=DEFAULT_INDEX,
            corpus=corpus,
            corpus_name=corpus.name,
            specification=IndexSpecification(mode=IndexMode.BM25),
            build=f"documentation of Python {platform.python_version()}",
        )
        build_index(order, Surroundings(store, _no_encoder), BuildProgress(Reporter(folder)))


def _no_encoder(specification: EncoderSpecification) -> NoReturn:
    raise AssertionError(f"an index of words needs no encoder: {specification.model}")


def main(root: Path) -> int:
    """Make the index where it is missing; the last line on standard error says why it cannot."""
    try:
        ensure_default_index(root)
    except TemperError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
