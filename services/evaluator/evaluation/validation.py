"""Validation of an evaluation file, before its job queues for a device.

Run as ``python -m services.evaluator.evaluation.validation JOB_DIR``; see
services.datasets.validate.
"""

import sys
from dataclasses import asdict
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rewards.rewards import CodeTestsReward, EvaluationGrader
from services.core.process.reporter import NEEDS_DEVICE, Reporter
from services.datasets.record import JsonValue, RowError, counted
from services.datasets.splits import by_subtask, subtask_of
from services.datasets.validate import FileValidation, validate
from services.evaluator.evaluation.reuse import Reuse, decide, write_reuse
from services.evaluator.evaluation.samples import EvaluationSample, gold_check, parse_sample
from services.evaluator.evaluation.spec import EvaluationFilesSpec
from services.rewards.code_tests import function_name, read_tests, row_checker
from services.rewards.families import check_row
from services.rewards.interface import RewardFailed
from services.rollouts.chat.prompt_check import PromptCheck


def check_samples(spec: EvaluationFilesSpec, file: FileValidation) -> JsonObject:
    """Check every row, and that the grader can use its golds."""
    asked = spec.checked[file.param]
    name = file.filename if asked.name is None else f"{asked.name}: {file.filename}"
    golds_of = gold_check(asked.grader)
    subtasks: list[tuple[str, ...]] = []
    prompts = PromptCheck(asked.template)

    def check(row: JsonValue) -> EvaluationSample:
        sample = _gradable(parse_sample(row, 0, golds_of, asked.benchmark), asked.grader)
        if asked.split is not None:
            subtasks.append(subtask_of(row, asked.benchmark))
        prompts.add(scan.number, sample.opened(asked.system_prompt), extra=sample.extra)
        return sample

    scan = file.scan(check, spec.max_errors)
    messages = golds = 0
    for sample in scan:
        messages += len(sample.messages)
        golds += len(sample.gold)
    scan.report.raise_errors(name, code="invalid_evaluation_file", param=file.param)
    report = {**asdict(scan.report), "messages": messages, "golds": golds}
    counts = (scan.report.rows, "row"), (messages, "message"), (golds, "gold")
    text = ", ".join(counted(number, noun) for number, noun in counts)
    if asked.split is not None:
        number = len(by_subtask(subtasks, shuffles=False).part(asked.split))
        if not number:
            message = f"{name}: a split needs two rows of a sub-task"
            raise InvalidRequest(message, param=file.param)
        text += f"; {number:,} in the {asked.split} part"
    file.message(text, **report)
    prompts.finish(file)
    return report


def reuse_equal(spec: EvaluationFilesSpec, _reports: JsonObject) -> JsonObject:
    """Take over the rows of an equal evaluation: the work then needs no device."""
    if spec.reuse is None:
        return {}
    reporter = Reporter(spec.reuse.validation_dir)
    try:
        reuse = decide(spec.reuse, reporter)
    except OSError as error:
        reuse = Reuse(parts=None, not_cached=f"its files cannot be read or copied: {error}")
    write_reuse(spec.reuse.job_dir, reuse)
    if reuse.cached_from is None:
        reporter.message(f"The model is asked: {reuse.not_cached}")
        return {}
    reporter.message(f"The answers and grades of {reuse.cached_from} are reused")
    return {NEEDS_DEVICE: False}


def _gradable(sample: EvaluationSample, grader: EvaluationGrader) -> EvaluationSample:
    """The sample as it is, with the tests or the question that its grader needs."""
    try:
        check_row(grader, "grader", sample.extra, sample.gold)
    except InvalidRequest as error:
        raise RowError(f"{error.param}: {error.message}") from None
    if isinstance(grader, CodeTestsReward):
        tests = sample.extra.get(grader.field)
        if tests is None:
            raise RowError(f"{grader.field} is missing")
        try:
            read = read_tests(tests, grader.language, function_name(sample.extra))
            if grader.checker is not None:
                row_checker(grader.checker, sample.extra, read)
        except RewardFailed as error:
            raise RowError(f"{grader.field}: {error.message}") from None
    return sample


if __name__ == "__main__":
    validate(Path(sys.argv[1]), EvaluationFilesSpec, check_samples, reuse_equal)
