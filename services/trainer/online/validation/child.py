"""The child that validates the prompts of an online training.

``python -m services.trainer.online.validation.child <job_dir>`` in the core environment. It reads
``validation.json`` and ends with the number of prompts, or fails with the first error in its
message; every error that it keeps is a message of its own.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from services.common.errors import TemperError
from services.common.process.reporter import Reporter
from services.common.records.progress import ReadingProgress
from services.common.records.record import JsonValue, RowError, counted
from services.common.records.survey import Findings, Survey
from services.trainer.online.rows import MAX_ROWS, PromptRow, read_row
from services.trainer.online.validation.spec import SPEC, PromptsSpec


def main(job_dir: Path) -> None:
    """Validate what the job directory asks for; the outcome is in its result.json."""
    reporter = Reporter(job_dir)
    spec = PromptsSpec.model_validate_json((job_dir / SPEC).read_bytes())
    reporter.phase("validating_files")
    try:
        findings = check_prompts(spec, ReadingProgress(reporter, 1).of(0))
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)
        return
    if findings.errors:
        findings.announce(reporter, spec.file.filename)
        message = findings.failure(spec.file.filename)
        reporter.fail("invalid_training_file", message, "training_file")
        return
    reporter.message(f"{spec.file.filename}: {counted(findings.rows, 'prompt')}")
    reporter.finish(prompts=findings.rows)


def check_prompts(spec: PromptsSpec, progress: Callable[[float], None]) -> Findings:
    """Read all rows; what is wrong with them is in the findings."""
    rows = 0

    def check(value: JsonValue) -> PromptRow:
        nonlocal rows
        rows += 1
        if rows > MAX_ROWS:
            raise RowError(f"is one more than the {MAX_ROWS:,} that a training can have")
        row = read_row(value, rows - 1, spec.prompt_type)
        if spec.needs_gold and not row.prompt.gold:
            raise RowError("gold is missing (or answer): the rewards compare with it")
        if spec.needs_answer and not row.answers:
            raise RowError("has no answer to learn from: neither an assistant's message nor a gold")
        return row

    survey = Survey(spec.file.path, check, max_errors=spec.max_errors, progress=progress)
    for _ in survey:
        pass
    return survey.findings


if __name__ == "__main__":
    main(Path(sys.argv[1]))
