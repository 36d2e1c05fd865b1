"""Reads predictions from the answers of a prompt batch: reasoning stripped, JSON found."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.batches.prompt_batches import Parsing
from services.metrics.extraction import (
    REASONING_ENDS,
    ExtractionOutcome,
    at_path,
    extract_json,
    has_path,
)


class Predictions:
    """Adds an outcome and a prediction to rows, and counts the outcomes.

    A prediction is null without JSON or without a value at the path. Rows with several texts
    have lists of both; rows without an answer have nulls.
    """

    def __init__(self, parsing: Parsing) -> None:
        self._path = parsing.path
        self._ends = parsing.reasoning_ends or REASONING_ENDS
        self.outcomes: Counter[ExtractionOutcome] = Counter()

    def added_to(self, rows: Iterable[JsonObject]) -> Iterator[JsonObject]:
        """The rows, each with its outcome and prediction."""
        for row in rows:
            result = row["result"]
            outcome: Any = None
            prediction: Any = None
            if isinstance(result, list):
                pairs = [self._parsed(text or "") for text in result]
                outcome, prediction = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            elif row["error"] is None:
                outcome, prediction = self._parsed(result or "")
            yield {**row, "outcome": outcome, "prediction": prediction}

    def _parsed(self, text: str) -> tuple[ExtractionOutcome, Any]:
        extraction = extract_json(text, self._ends, has_path(self._path))
        self.outcomes[extraction.outcome] += 1
        with suppress(LookupError):
            return extraction.outcome, at_path(extraction.value, self._path)
        return extraction.outcome, None
