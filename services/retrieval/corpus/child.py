"""The child that validates the corpus of an indexing job.

``python -m services.retrieval.corpus.child <job_dir>`` in the core environment. It reads
``validation.json`` and ends with a report, or fails with the first error in its message; every
error that it keeps is a message of its own.
"""

import sys
from pathlib import Path

from services.contracts.errors import InvalidRequest, TemperError
from services.core.process.reporter import Reporter
from services.datasets.progress import ReadingProgress
from services.datasets.record import counted
from services.retrieval.corpus.checked import InvalidCorpus
from services.retrieval.corpus.spec import SPEC, ValidationSpec
from services.retrieval.corpus.validation import validate_corpus
from services.retrieval.store.tokens import Analysis


def main(job_dir: Path) -> None:
    """Validate what the job directory asks for; the outcome is in its result.json."""
    reporter = Reporter(job_dir)
    spec = ValidationSpec.model_validate_json((job_dir / SPEC).read_bytes())
    reporter.phase("validating_files")
    try:
        passages = _validate(spec, job_dir, reporter)
    except InvalidCorpus as error:
        error.announce(reporter)
        reporter.fail(error.code, error.message, error.param)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param or "file")
    else:
        reporter.message(f"{spec.file.filename}: {counted(passages, 'passage')}")
        reporter.finish(passages=passages)


def _validate(spec: ValidationSpec, job_dir: Path, reporter: Reporter) -> int:
    try:
        Analysis(spec.language)
    except ValueError as error:
        raise InvalidRequest(str(error), param="language") from None
    progress = ReadingProgress(reporter, files=1).of(0)
    return validate_corpus(spec.file, job_dir, progress)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
