"""Checking the corpus of an indexing job before the job may queue."""

from collections.abc import Callable
from pathlib import Path

from services.datasets.source import SourceFile
from services.retrieval.corpus.checked import CheckedCorpus
from services.retrieval.corpus.identities import IdentityLog
from services.retrieval.corpus.reader import open_corpus

IDS = "ids"
_PASSAGES_PER_PROGRESS = 500


def validate_corpus(file: SourceFile, scratch: Path, progress: Callable[[float], None]) -> int:
    """Read a corpus to its end and return how many passages it has.

    ``progress`` is told now and then which share was read; ids are noted in a file in
    ``scratch``, so that memory is bounded. Raises `InvalidCorpus` and `UnreadableFile`.
    """
    corpus = CheckedCorpus(open_corpus(file.path), file.filename)
    with IdentityLog(scratch / IDS) as ids:
        for passage in corpus:
            ids.add((passage.document.id,))
            if corpus.passages % _PASSAGES_PER_PROGRESS == 0:
                progress(corpus.share_read)
        corpus.check_ids(ids)
    corpus.raise_problems()
    return corpus.passages
