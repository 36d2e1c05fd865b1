"""The child that validates the files of a fine-tuning job.

``python -m services.trainer.validation.child <job_dir>`` in the core environment. It reads
``validation.json`` and ends with one report for each file, or fails with the first error in its
message; every error that it keeps is a message of its own.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from services.contracts.errors import TemperError
from services.core.process.reporter import Reporter
from services.datasets.progress import ReadingProgress
from services.datasets.source import SourceFile
from services.trainer.validation.report import TrainingFileReport
from services.trainer.validation.spec import SPEC, ValidationSpec
from services.trainer.validation.tokens import row_lengths
from services.trainer.validation.training_file import validate_training_file


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
    files = {"training_file": spec.training_file}
    if spec.validation_file is not None:
        files["validation_file"] = spec.validation_file
    progress = ReadingProgress(reporter, len(files))
    reports = {
        param: _validate_file(spec, file, reporter, progress.of(index))
        for index, (param, file) in enumerate(files.items())
    }
    for param, report in reports.items():
        if report.findings.errors:
            message = report.findings.failure(files[param].filename)
            reporter.fail("invalid_training_file", message, param)
            return
    validation = reports.get("validation_file")
    reporter.finish(
        training=reports["training_file"].to_json(),
        validation=None if validation is None else validation.to_json(),
    )


def _validate_file(
    spec: ValidationSpec, file: SourceFile, reporter: Reporter, progress: Callable[[float], None]
) -> TrainingFileReport:
    report = validate_training_file(
        file.path,
        spec.data_format,
        row_lengths(spec.tokenizer_file, spec.max_seq_length),
        max_errors=spec.max_errors,
        progress=progress,
    )
    if report.findings.errors:
        report.findings.announce(reporter, file.filename)
        return report
    reporter.message(f"{file.filename}: {report.summary()}", **report.to_json())
    if report.lengths is not None and report.lengths.truncated:
        reporter.message(
            f"{file.filename}: {report.lengths.truncated:,} of {report.findings.rows:,} rows are "
            f"longer than max_seq_length ({spec.max_seq_length:,} tokens) and will be truncated",
            "warn",
        )
    return report


if __name__ == "__main__":
    main(Path(sys.argv[1]))
