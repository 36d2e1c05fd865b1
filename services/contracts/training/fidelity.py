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

    code: FindingCode = Field(description="Stable code of the finding, for programs.")
    rows: int = Field(description="Number of rows with the finding.")
    first_rows: list[int] = Field(
        description="Numbers of the first rows with the finding, counted from 1."
    )
    message: str = Field(description="Explanation, with an example of the first row.")


class TrainedText(Resource):
    """Consecutive text of a sample row, and whether its tokens have a loss."""

    text: str = Field(description="Consecutive text of the row as the chat template renders it.")
    trained: bool = Field(description="Whether the tokens of the text have a loss.")


class SampleRow(Resource):
    """A row as it is trained: its sequences, what of it is not in them, and the tokens cut off."""

    row: int = Field(description="Number of the row in its file, counted from 1.")
    sequences: list[list[TrainedText]] = Field(
        description="Sequences that training makes of the row, as consecutive texts."
    )
    missing: list[str] = Field(description="Parts of the row that are in none of its sequences.")
    cut_tokens: int = Field(description="Number of tokens that are cut off at the maximum length.")


class FidelityReport(Resource):
    """The findings over all rows of a file, and the first rows as they are trained.

    ``lossy_rows`` have words that are not in the trained text; ``left_out`` rows teach nothing.
    """

    rows: int = Field(
        description="Number of rendered rows: a validation renders 100,000 at most, and none of "
        "more than a million characters."
    )
    lossy_rows: int = Field(
        description="Number of rows with words that are not in the trained text."
    )
    left_out: int = Field(description="Number of rows that teach nothing.")
    findings: list[Finding] = Field(description="Findings over all rows, by code.")
    samples: list[SampleRow] = Field(description="First rows as they are trained.")
    verdict: Literal["faithful", "with_findings", "refused"] = Field(
        description="Verdict on the file: faithful, with_findings or refused."
    )
    summary: str = Field(description="The verdict as a sentence.")
