"""Validation of the corpus of an indexing job, before the job queues.

Run as ``python -m services.retrieval.corpus.validation JOB_DIR`` (see services.datasets.validate).
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import Problem, UnreadableFile, counted
from services.datasets.scan import InvalidFile
from services.datasets.validate import FileValidation, validate
from services.retrieval.corpus.corpus import Corpus, Passage, open_corpus
from services.retrieval.corpus.identities import IdLog
from services.retrieval.corpus.spec import CorpusFileSpec
from services.retrieval.store.tokens import Analyzer

DEFAULT_MAX_PROBLEMS = 20


class InvalidCorpus(InvalidFile):
    """A corpus that cannot be indexed."""

    code = "invalid_corpus"

    def __init__(self, name: str, problems: list[Problem], *, complete: bool) -> None:
        super().__init__(name, problems, complete=complete, code=self.code)


class CheckedCorpus:
    """Iterates over the valid passages of a corpus and collects its problems.

    Reading stops after ``max_problems``.
    """

    def __init__(
        self, corpus: Corpus, name: str, *, max_problems: int = DEFAULT_MAX_PROBLEMS
    ) -> None:
        self._corpus = corpus
        self._name = name
        self._most = max_problems
        self._complete = True
        self.problems: list[Problem] = []
        self.passages = 0

    @property
    def share_read(self) -> float:
        """Fraction of the corpus read so far, from 0 to 1."""
        return self._corpus.share_read

    def __iter__(self) -> Iterator[Passage]:
        self.passages = 0
        try:
            for item in self._corpus:
                if isinstance(item, Passage):
                    self.passages += 1
                    yield item
                elif not self._record(item):
                    return
        except UnreadableFile as error:
            self._record(error.problem)
            return
        if not self.passages and not self.problems:
            self._record(Problem(None, "holds no passages"))

    def check_ids(self, log: IdLog) -> None:
        """Check for duplicate ids; ``log`` holds the ids of all passages, in order."""
        suspects = set(log.suspects(self._most + 1))
        if not suspects:
            return
        first: dict[str, str] = {}
        last = max(suspects)
        passages = (item for item in self._corpus if isinstance(item, Passage))
        for number, passage in enumerate(passages):
            if number > last:
                return
            if number not in suspects:
                continue
            earlier = first.setdefault(passage.document.id, passage.place)
            if earlier != passage.place:
                message = f"id {passage.document.id!r} is also that of {earlier}"
                place = "" if passage.row is not None else f"{passage.place}: "
                if not self._record(Problem(passage.row, place + message)):
                    return

    def raise_problems(self) -> None:
        """Raise `InvalidCorpus` when there were any."""
        if self.problems:
            problems = sorted(self.problems, key=lambda problem: problem.row or 0)
            raise InvalidCorpus(self._name, problems, complete=self._complete)

    def _record(self, problem: Problem) -> bool:
        """Record a problem; False once there are too many to record."""
        if len(self.problems) < self._most:
            self.problems.append(problem)
        else:
            self._complete = False
        return self._complete


IDS = "ids"
_PASSAGES_PER_PROGRESS = 500


def check_corpus(spec: CorpusFileSpec, file: FileValidation) -> JsonObject:
    """Read the whole corpus; passage ids go to a scratch file, to bound memory."""
    try:
        Analyzer(spec.language)
    except ValueError as error:
        raise InvalidRequest(str(error), param="language") from None
    corpus = CheckedCorpus(open_corpus(file.path), file.filename, max_problems=spec.max_errors)
    with IdLog(file.job_dir / IDS) as ids:
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
