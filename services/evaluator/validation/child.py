"""The child that validates the file of an evaluation.

``python -m services.evaluator.validation.child <job_dir>`` in the core environment. It reads
``validation.json`` and ends with a report, or fails with the first error in its message; every
error that it keeps is a message of its own.
"""

import sys
from pathlib import Path

from services.contracts.errors import TemperError
from services.core.process.reporter import Reporter
from services.datasets.progress import ReadingProgress
from services.evaluator.graders.factory import make_grader
from services.evaluator.validation.evaluation_file import validate_evaluation_file
from services.evaluator.validation.spec import SPEC, ValidationSpec


def main(job_dir: Path) -> None:
    """Validate what the job directory asks for; the outcome is in its result.json."""
    reporter = Reporter(job_dir)
    spec = ValidationSpec.model_validate_json((job_dir / SPEC).read_bytes())
    reporter.phase("validating_files")
    try:
        _validate(spec, reporter)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)


def _validate(spec: ValidationSpec, reporter: Reporter) -> None:
    filename = spec.file.filename
    report = validate_evaluation_file(
        spec.file.path,
        make_grader(spec.grader),
        max_errors=spec.max_errors,
        progress=ReadingProgress(reporter, files=1).of(0),
    )
    if report.findings.errors:
        report.findings.announce(reporter, filename)
        reporter.fail("invalid_evaluation_file", report.findings.failure(filename), "file")
        return
    reporter.message(f"{filename}: {report.summary()}", **report.to_json())
    reporter.finish(evaluation=report.to_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
