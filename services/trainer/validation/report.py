"""What validation says about one file."""

from dataclasses import asdict, dataclass

from services.contracts.base import JsonObject
from services.contracts.fine_tuning import DataFormat
from services.datasets.record import counted
from services.datasets.survey import Findings
from services.trainer.validation.lengths import LengthStatistics


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over the valid rows; ``turns`` counts the messages of the assistant."""

    messages: int = 0
    turns: int = 0
    tool_calls: int = 0
    rows_with_tools: int = 0


@dataclass(frozen=True, slots=True)
class TrainingFileReport:
    """The outcome for one file; valid unless ``findings`` holds errors.

    ``layout`` is null while no row told it; ``lengths`` is null without a valid row.
    """

    findings: Findings
    layout: DataFormat | None
    counts: Counts
    lengths: LengthStatistics | None

    def to_json(self) -> JsonObject:
        """The report as one flat JSON object: findings beside layout, counts and lengths."""
        report = asdict(self)
        return {**report.pop("findings"), **report}

    def summary(self) -> str:
        """One line for a person."""
        text = f"{counted(self.findings.rows, 'row')}, {self.layout}"
        if self.lengths is None:
            return text
        lengths = self.lengths
        unknown = "" if lengths.unit == "tokens" else " (the model has no tokenizer.json yet)"
        return (
            f"{text}; {lengths.unit} per row: mean {lengths.mean:,.0f}, p95 {lengths.p95:,}, "
            f"max {lengths.max:,}{unknown}"
        )
