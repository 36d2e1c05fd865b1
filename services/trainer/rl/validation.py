"""Validation of the prompts of an online training, before it queues for devices.

Run as ``python -m services.trainer.rl.validation JOB_DIR`` (see services.datasets.validate).
"""

import sys
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.rollouts.sources import source_of
from services.datasets.record import JsonValue, RowError, counted
from services.datasets.validate import FileValidation, validate
from services.models.tokenizer_ids.id_map import map_ids
from services.rollouts.chat.prompt_check import PromptCheck
from services.trainer.rl.prompts import MAX_ROWS, TrainingPrompt, read_row
from services.trainer.rl.spec import TEACHER, PromptFilesSpec


def check_prompts(spec: PromptFilesSpec, file: FileValidation) -> JsonObject:
    """Check that every row is a prompt with the gold or the answer that the method needs, and that
    a teacher has the student's tokens."""
    if spec.taught is not None and file.param == "training_file":
        map_ids(spec.taught.student, spec.taught.teacher, TEACHER)
    limit = spec.validation_rows if file.param == "validation_file" else MAX_ROWS
    rows = 0
    prompts = PromptCheck(spec.template)

    def check(value: JsonValue) -> TrainingPrompt:
        nonlocal rows
        rows += 1
        if rows > limit:
            raise RowError(f"exceeds the limit of {limit:,} rows")
        row = read_row(value, rows - 1, spec.prompt_type)
        needed = spec.needs_gold or source_of(row.prompt.extra) in spec.gold_sources
        if needed and not row.prompt.gold:
            raise RowError("gold is missing (or answer): the rewards need it")
        if spec.needs_answer and not row.answers:
            raise RowError("has no answer to learn from: neither an assistant's message nor a gold")
        answers = row.answers if spec.needs_answer else ()
        prompts.add(scan.number, row.prompt.messages, answers, row.prompt.extra)
        return row

    scan = file.scan(check, spec.max_errors)
    report = scan.run()
    report.raise_errors(file.filename, code="invalid_training_file", param=file.param)
    file.message(counted(report.rows, "prompt"))
    prompts.finish(file)
    return {"prompts": report.rows}


if __name__ == "__main__":
    validate(Path(sys.argv[1]), PromptFilesSpec, check_prompts)
