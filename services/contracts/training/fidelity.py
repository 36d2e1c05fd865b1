"""What becomes of a file's rows on their way to the weights: the trained text, and what is not in
it."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import Resource

FIDELITY = "fidelity.json"
"""The artifact that says what becomes of the rows of each file."""
MAX_NAMED_ROWS = 20
DEFAULT_LOSSY_SHARE = 0.01


class FindingCode(StrEnum):
    """What may be wrong with a rendered row."""

    LOST = "lost"
    LOST_CONTEXT = "lost_context"
    UNTRAINED = "untrained"
    TOO_LONG = "too_long"
    EQUAL_PAIR = "equal_pair"
    NO_STOP = "no_stop"
    OTHER_CONTEXT = "other_context"
    CONTROL_TOKENS = "control_tokens"
    NEUTRALIZED = "neutralized"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    OWN_TOOLS = "own_tools"


class Finding(Resource):
    """Rows with one kind of finding; ``first_rows`` are the numbers of the first of them."""

    code: FindingCode
    rows: int
    first_rows: list[int]
    message: str = Field(description="Explanation, with an example of the first row.")


class TrainedText(Resource):
    """Consecutive text of a sample row, and whether its tokens have a loss."""

    text: str
    trained: bool


class SampleRow(Resource):
    """A row as it is trained: its sequences, what of it is not in them, and the tokens cut off."""

    row: int
    sequences: list[list[TrainedText]]
    missing: list[str]
    cut_tokens: int


class FidelityReport(Resource):
    """The findings over all rows of a file, and the first rows as they are trained.

    ``lossy_rows`` have words that are not in the trained text; ``left_out`` rows teach nothing.
    """

    rows: int
    lossy_rows: int
    left_out: int
    findings: list[Finding]
    samples: list[SampleRow]
    verdict: Literal["faithful", "with_findings", "refused"]
    summary: str = Field(description="The verdict as a sentence.")
