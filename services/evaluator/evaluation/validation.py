"""Validation of an evaluation file, before its job queues for a device.

Run as ``python -m services.evaluator.evaluation.validation JOB_DIR``; see
services.datasets.validate.
"""

import sys
from dataclasses import asdict
from pathlib import Path

from services.contracts.base import JsonObject
from services.datasets.record import counted
from services.datasets.validate import FileValidation, validate
from services.evaluator.evaluation.samples import gold_matcher, parse_sample
from services.evaluator.evaluation.spec import EvaluationFileSpec


def check_samples(spec: EvaluationFileSpec, file: FileValidation) -> JsonObject:
    """Check every row, and that the grader can use its golds."""
    matcher = gold_matcher(spec.grader)
    scan = file.scan(lambda row: parse_sample(row, 0, matcher, spec.benchmark), spec.max_errors)
    messages = golds = 0
    for sample in scan:
        messages += len(sample.messages)
        golds += len(sample.gold)
    scan.report.raise_errors(file.filename, code="invalid_evaluation_file", param=file.param)
    report = {**asdict(scan.report), "messages": messages, "golds": golds}
    counts = (scan.report.rows, "row"), (messages, "message"), (golds, "gold")
    file.message(", ".join(counted(number, noun) for number, noun in counts), **report)
    return report


if __name__ == "__main__":
    validate(Path(sys.argv[1]), EvaluationFileSpec, check_samples)
