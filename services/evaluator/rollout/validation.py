"""Validation of the prompts of a rollout job, before it queues for a device.

Run as ``python -m services.evaluator.rollout.validation JOB_DIR`` (see services.datasets.validate).
"""

import sys
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.rollouts import MAX_TRAJECTORIES
from services.contracts.rollouts.sources import source_of
from services.datasets.record import JsonValue, RowError, counted
from services.datasets.validate import FileValidation, validate
from services.evaluator.rollout.spec import PromptFileSpec
from services.rollouts.chat.prompt_check import PromptCheck
from services.rollouts.prompts import Prompt, prompt_of_row


def check_prompts(spec: PromptFileSpec, file: FileValidation) -> JsonObject:
    """Check that every row is a prompt, and that they make no more rollouts than a job may have."""

    prompts_check = PromptCheck(spec.template)

    def check(row: JsonValue) -> Prompt:
        prompt = prompt_of_row(row, 0, spec.prompt_type, spec.system_prompt)
        needed = spec.needs_gold or source_of(prompt.extra) in spec.gold_sources
        if needed and not prompt.gold:
            raise RowError("gold is missing, and a reward compares with it")
        prompts_check.add(scan.number, prompt.messages, extra=prompt.extra)
        return prompt

    scan = file.scan(check, spec.max_errors)
    report = scan.run()
    report.raise_errors(file.filename, code="invalid_prompt_file", param=file.param)
    prompts = min(report.rows, spec.max_prompts or report.rows)
    rollouts = prompts * spec.samples_per_prompt
    if rollouts > MAX_TRAJECTORIES:
        raise InvalidRequest(
            f"{counted(prompts, 'prompt')} of {counted(spec.samples_per_prompt, 'sample')} are "
            f"more than {MAX_TRAJECTORIES:,} rollouts; set max_prompts",
            param="max_prompts",
        )
    file.message(f"{counted(report.rows, 'prompt')}, {counted(rollouts, 'rollout')} to play")
    prompts_check.finish(file)
    return {"prompts": report.rows}


if __name__ == "__main__":
    validate(Path(sys.argv[1]), PromptFileSpec, check_prompts)
