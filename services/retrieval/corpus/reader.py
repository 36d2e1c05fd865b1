"""Opening a corpus, whatever it is."""

from pathlib import Path

from services.datasets.record import UnreadableFile
from services.retrieval.corpus.corpus import Corpus, RowCorpus
from services.retrieval.corpus.folder import FolderCorpus


def open_corpus(path: Path, *, ids_required: bool = False) -> Corpus:
    """Open a file of rows (JSONL, JSON or Parquet, told by its content) or a folder of text.

    With ``ids_required`` a row without an id is a problem. Raises `UnreadableFile`.
    """
    if path.is_dir():
        return FolderCorpus(path)
    if not path.exists():
        raise UnreadableFile("there is no such file")
    return RowCorpus(path, ids_required=ids_required)
