"""The durable lines of a batch: ``output.jsonl`` and ``errors.jsonl`` in the job directory.

Both are files in OpenAI's format, appended to as requests end. An answered request is never sent
again: later attempts skip the ids in ``output.jsonl``. Failed ones are, so that every attempt
begins with an empty ``errors.jsonl``.
"""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from services.contracts.base import JsonObject
from services.contracts.batches.batches import (
    ERROR_FILE,
    OUTPUT_FILE,
    BatchOutput,
    BatchUsage,
    InputTokensDetails,
    OutputTokensDetails,
    RequestCounts,
)
from services.datasets.append_log import AppendLog, read_records
from services.inference.chat_answers import token_count


@dataclass
class BatchTotals:
    """Totals over the finished requests of all attempts."""

    total: int
    completed: int = 0
    failed: int = 0
    seconds: float = 0.0
    _tokens: Counter[str] = field(default_factory=Counter)

    @property
    def unit(self) -> str:
        """The counters."""
        return "requests"

    @property
    def done(self) -> int:
        """Number of finished requests."""
        return self.completed + self.failed

    @property
    def tokens(self) -> int:
        """Tokens of all responses."""
        return self._tokens["output"]

    @property
    def counts(self) -> RequestCounts:
        """The counts on the wire."""
        return RequestCounts(total=self.total, completed=self.completed, failed=self.failed)

    @property
    def usage(self) -> BatchUsage:
        """The token totals on the wire."""
        tokens = self._tokens
        return BatchUsage(
            input_tokens=tokens["input"],
            output_tokens=tokens["output"],
            total_tokens=tokens["input"] + tokens["output"],
            input_tokens_details=InputTokensDetails(cached_tokens=tokens["cached"]),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=tokens["reasoning"]),
        )

    def metrics_so_far(self) -> dict[str, float]:
        """Metrics reported while requests are sent."""
        return {"failed": self.failed}

    def add_answer(self, body: JsonObject) -> None:
        """Count an answered request."""
        self.completed += 1
        for name, path in _TOKENS.items():
            self._tokens[name] += token_count(body, *path) or 0


_TOKENS = {
    "input": ("prompt_tokens",),
    "output": ("completion_tokens",),
    "cached": ("prompt_tokens_details", "cached_tokens"),
    "reasoning": ("completion_tokens_details", "reasoning_tokens"),
}
"""The totals, and the path of each in the usage of a response."""


class Outputs:
    """Appends the lines of both files; `answered_ids` need no request."""

    def __init__(self, job_dir: Path, totals: BatchTotals) -> None:
        self._job_dir = job_dir
        self._totals = totals
        self.answered_ids: set[str] = set()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            output, errors = self._job_dir / OUTPUT_FILE, self._job_dir / ERROR_FILE
            self._output = stack.enter_context(AppendLog[BatchOutput](output))
            self._errors = stack.enter_context(AppendLog[BatchOutput](errors, end=0))
            for _, line in read_records(output, BatchOutput):
                if line.response is not None:
                    self.answered_ids.add(line.custom_id)
                    self._totals.add_answer(line.response.body)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def answered(self, line: BatchOutput, body: JsonObject) -> None:
        """Store a response."""
        self._output.append(line)
        self._totals.add_answer(body)

    def failed(self, line: BatchOutput) -> None:
        """Store the reason why a request has no response."""
        self._errors.append(line)
        self._totals.failed += 1

    async def sync_forever(self) -> None:
        """Sync answers periodically until cancelled; errors are collected again after a crash."""
        await self._output.sync_forever()
