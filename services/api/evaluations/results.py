"""Pages of an evaluation's results, read from its file.

The file grows by whole lines in the order in which samples complete, also while it is read. A
result's id carries the position behind its line, so that the next page is found without reading
what was shown before.
"""

import json
import re
from pathlib import Path

from services.api.paging import page_of
from services.common.contracts.evaluations import SampleResult
from services.common.contracts.pages import Page
from services.common.errors import InvalidRequest

RESULTS = "results.jsonl"
_RESULT_ID = re.compile(r"evalres-(?P<position>[0-9]{1,15})")


def list_results(job_dir: Path, *, after: str | None, limit: int) -> Page[SampleResult]:
    """Up to ``limit`` results behind ``after``, oldest first."""
    position = _position(after)
    results: list[SampleResult] = []
    try:
        with open(job_dir / RESULTS, "rb") as file:
            _check_position(file.seek(0, 2), position)
            file.seek(position)
            while len(results) <= limit and (line := file.readline()).endswith(b"\n"):
                position += len(line)
                fields = json.loads(line)
                results.append(SampleResult(id=f"evalres-{position}", **fields))
    except FileNotFoundError:
        _check_position(0, position)
    return page_of(results[:limit], len(results) > limit)


def _position(after: str | None) -> int:
    if after is None:
        return 0
    match = _RESULT_ID.fullmatch(after)
    if match is None:
        raise InvalidRequest(f"{after[:80]!r} is no result of this evaluation", param="after")
    return int(match["position"])


def _check_position(size: int, position: int) -> None:
    if position > size:
        raise InvalidRequest("is no result of this evaluation", param="after")
