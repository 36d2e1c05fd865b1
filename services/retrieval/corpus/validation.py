"""Validation of the corpus of an indexing job, before the job queues.

Run as ``python -m services.retrieval.corpus.validation JOB_DIR`` (see services.datasets.validate).
"""

import sys
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import counted
from services.datasets.validate import FileValidation, validate
from services.retrieval.corpus.checked import CheckedCorpus
from services.retrieval.corpus.identities import IdentityLog
from services.retrieval.corpus.reader import open_corpus
from services.retrieval.corpus.spec import CorpusFileSpec
from services.retrieval.store.tokens import Analysis

IDS = "ids"
_PASSAGES_PER_PROGRESS = 500


def check_corpus(spec: CorpusFileSpec, file: FileValidation) -> JsonObject:
    """Read the corpus to its end; passage ids are kept in a scratch file, to bound memory."""
    try:
        Analysis(spec.language)
    except ValueError as error:
        raise InvalidRequest(str(error), param="language") from None
    corpus = CheckedCorpus(open_corpus(file.path), file.filename, max_problems=spec.max_errors)
    with IdentityLog(file.job_dir / IDS) as ids:
        for passage in corpus:
            ids.add((passage.document.id,))
            if corpus.passages % _PASSAGES_PER_PROGRESS == 0:
                file.progress(corpus.share_read)
        corpus.check_ids(ids)
    corpus.raise_problems()
    file.message(counted(corpus.passages, "passage"))
    return {"passages": corpus.passages}


if __name__ == "__main__":
    validate(Path(sys.argv[1]), CorpusFileSpec, check_corpus)
