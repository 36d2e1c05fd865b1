"""The child that validates the prompts of an online training.

``python -m services.trainer.rl.validation.child <job_dir>`` in the core environment. It reads
``validation.json`` and ends with the number of prompts, or fails with the first error in its
message; every error that it keeps is a message of its own.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from services.contracts.errors import TemperError
from services.core.process.reporter import Reporter
from services.datasets.progress import ReadingProgress
from services.datasets.record import JsonValue, RowError, counted
from services.datasets.source import SourceFile
from services.datasets.survey import Findings, Survey
from services.trainer.rl.rows import MAX_ROWS, PromptRow, read_row
from services.trainer.rl.validation.spec import SPEC, PromptsSpec


def main(job_dir: Path) -> None:
    """Validate what the job directory asks for; the outcome is in its result.json."""
    reporter = Reporter(job_dir)
    spec = PromptsSpec.model_validate_json((job_dir / SPEC).read_bytes())
    reporter.phase("validating_files")
    try:
        _validate(spec, reporter)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)


def _validate(spec: PromptsSpec, reporter: Reporter) -> None:
    files = {"training_file": (spec.training_file, MAX_ROWS)}
    if spec.validation_file is not None:
        files["validation_file"] = (spec.validation_file, spec.validation_rows)
    progress = ReadingProgress(reporter, len(files))
    found = {
        param: check_prompts(spec, file, most, progress.of(index))
        for index, (param, (file, most)) in enumerate(files.items())
    }
    for param, findings in found.items():
        filename = files[param][0].filename
        if findings.errors:
            findings.announce(reporter, filename)
        else:
            reporter.message(f"{filename}: {counted(findings.rows, 'prompt')}")
    faulty = next((param for param, findings in found.items() if findings.errors), None)
    if faulty is not None:
        message = found[faulty].failure(files[faulty][0].filename)
        reporter.fail("invalid_training_file", message, faulty)
        return
    reporter.finish(prompts=found["training_file"].rows)


def check_prompts(
    spec: PromptsSpec, file: SourceFile, most: int, progress: Callable[[float], None]
) -> Findings:
    """Read the rows of a file, at most ``most``; what is wrong with them is in the findings."""
    rows = 0

    def check(value: JsonValue) -> PromptRow:
        nonlocal rows
        rows += 1
        if rows > most:
            raise RowError(f"is one more than the {most:,} that the file can have")
        row = read_row(value, rows - 1, spec.prompt_type)
        if spec.needs_gold and not row.prompt.gold:
            raise RowError("gold is missing (or answer): the rewards compare with it")
        if spec.needs_answer and not row.answers:
            raise RowError("has no answer to learn from: neither an assistant's message nor a gold")
        return row

    survey = Survey(file.path, check, max_errors=spec.max_errors, progress=progress)
    for _ in survey:
        pass
    return survey.findings


if __name__ == "__main__":
    main(Path(sys.argv[1]))
