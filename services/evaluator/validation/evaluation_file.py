"""Validation of one evaluation file."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.datasets.record import counted
from services.datasets.survey import Findings, Survey
from services.evaluator.graders.grader import Grader
from services.evaluator.validation.samples import parse_sample


@dataclass(frozen=True, slots=True)
class EvaluationFileReport:
    """The outcome for one file; valid unless ``findings`` holds errors.

    ``messages`` and ``golds`` are sums over the valid rows.
    """

    findings: Findings
    messages: int
    golds: int

    def to_json(self) -> JsonObject:
        """The report as one flat JSON object."""
        report = asdict(self)
        return {**report.pop("findings"), **report}

    def summary(self) -> str:
        """One line for a person."""
        parts = (self.findings.rows, "row"), (self.messages, "message"), (self.golds, "gold")
        return ", ".join(counted(number, noun) for number, noun in parts)


def validate_evaluation_file(
    path: Path, grader: Grader, *, max_errors: int, progress: Callable[[float], None]
) -> EvaluationFileReport:
    """Read the whole file, unless it has more than ``max_errors`` problems.

    ``progress`` is told now and then which share of the file was read. Whatever is wrong with
    the file is in the report; memory is bounded however long the file is.
    """
    survey = Survey(
        path, lambda row: parse_sample(row, 0, grader), max_errors=max_errors, progress=progress
    )
    messages = golds = 0
    for sample in survey:
        messages += len(sample.messages)
        golds += len(sample.gold)
    return EvaluationFileReport(survey.findings, messages, golds)
