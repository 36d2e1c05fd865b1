"""The child that validates the prompts of a rollout job.

``python -m services.evaluator.rollout.validation <job_dir>`` in the core environment. It reads
``validation.json`` and ends with a report, or fails with the first error in its message; every
error that it keeps is a message of its own.
"""

import sys
from pathlib import Path

from services.contracts.errors import InvalidRequest, TemperError
from services.contracts.rollouts import MAX_TRAJECTORIES
from services.core.process.reporter import Reporter
from services.datasets.progress import ReadingProgress
from services.datasets.record import JsonValue, RowError, counted
from services.datasets.survey import Findings, Survey
from services.evaluator.rollout.spec import VALIDATION_SPEC, RolloutValidationSpec
from services.rollouts.prompts import Prompt, prompt_of_row


def main(job_dir: Path) -> None:
    """Validate what the job directory asks for; the outcome is in its result.json."""
    reporter = Reporter(job_dir)
    spec = RolloutValidationSpec.model_validate_json((job_dir / VALIDATION_SPEC).read_bytes())
    reporter.phase("validating_files")
    try:
        _validate(spec, reporter)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)


def _validate(spec: RolloutValidationSpec, reporter: Reporter) -> None:
    filename = spec.file.filename
    findings = _survey(spec, reporter)
    if findings.errors:
        findings.announce(reporter, filename)
        reporter.fail("invalid_prompt_file", findings.failure(filename), "file")
        return
    prompts = min(findings.rows, spec.max_prompts or findings.rows)
    _check_number(prompts, spec.samples_per_prompt)
    rollouts = counted(prompts * spec.samples_per_prompt, "rollout")
    reporter.message(f"{filename}: {counted(findings.rows, 'prompt')}, {rollouts} to play")
    reporter.finish(prompts=findings.rows)


def _survey(spec: RolloutValidationSpec, reporter: Reporter) -> Findings:
    def check(row: JsonValue) -> Prompt:
        prompt = prompt_of_row(row, 0, spec.prompt_type)
        if spec.needs_gold and not prompt.gold:
            raise RowError("gold is missing, and a reward compares with it")
        return prompt

    survey = Survey(
        spec.file.path,
        check,
        max_errors=spec.max_errors,
        progress=ReadingProgress(reporter, files=1).of(0),
    )
    for _ in survey:
        pass
    return survey.findings


def _check_number(prompts: int, samples: int) -> None:
    if prompts * samples > MAX_TRAJECTORIES:
        raise InvalidRequest(
            f"{counted(prompts, 'prompt')} of {counted(samples, 'sample')} are more than "
            f"{MAX_TRAJECTORIES:,} rollouts; set max_prompts",
            param="max_prompts",
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
