"""Pages of an evaluation's results, read from its file.

The file is appended to by whole lines while it is read, in the order in which samples finish. A
result's id encodes the offset after its line, so that the next page starts without reading
earlier ones. Pages in input order use an index that is built once per state of the file; a row
that finishes between two pages is missed if it sorts before the second.
"""

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from os import SEEK_END
from pathlib import Path
from typing import IO

from services.contracts.base import Page
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.results import ResultOrder, ResultOutcome, SampleResult
from services.core.web.paging import page_of

RESULTS = "results.jsonl"
_BLOCK = 65_536
_RESULT_ID = re.compile(r"evalres-(?P<position>[0-9]{1,15})")


@dataclass(frozen=True)
class ResultFilter:
    """Selects results; ``text`` is searched for in answers, ignoring case."""

    outcome: ResultOutcome | None = None
    text: str | None = None
    benchmark: str | None = None
    tag: str | None = None
    row: int | None = None

    def accepts(self, result: SampleResult) -> bool:
        """Whether the filter selects a result."""
        if self.outcome is not None and self.outcome != result.outcome:
            return False
        if self.benchmark is not None and self.benchmark != result.benchmark:
            return False
        if self.row is not None and self.row != result.index:
            return False
        if self.tag is not None and self.tag not in {*result.tags, result.group}:
            return False
        return self.text is None or self.text.casefold() in (result.answer or "").casefold()


EVERY_RESULT = ResultFilter()


def list_results(
    job_dir: Path,
    *,
    after: str | None,
    limit: int,
    where: ResultFilter = EVERY_RESULT,
    order: ResultOrder = "completion",
) -> Page[SampleResult]:
    """Up to ``limit`` selected results after ``after``."""
    position = _position(after)
    rows = _in_completion_order if order == "completion" else _in_input_order
    results: list[SampleResult] = []
    try:
        with open(job_dir / RESULTS, "rb") as file:
            _check(file, position)
            selected = filter(where.accepts, rows(file, job_dir / RESULTS, position))
            results.extend(islice(selected, limit + 1))
    except FileNotFoundError:
        if position:
            raise _unknown_result() from None
    return page_of(results[:limit], len(results) > limit)


def _in_completion_order(file: IO[bytes], _path: Path, position: int) -> Iterator[SampleResult]:
    file.seek(position)
    while (line := file.readline()).endswith(b"\n"):
        position += len(line)
        yield _result(line, position)


def _in_input_order(file: IO[bytes], path: Path, position: int) -> Iterator[SampleResult]:
    state = os.fstat(file.fileno())
    order = _input_order(path, state.st_ino, state.st_size)
    begin = 0
    if position:
        file.seek(_line_start(file, position))
        last = _result(file.readline(), position)
        begin = bisect_right(order, (last.benchmark or "", last.index, last.sample, position))
    for *_, start in order[begin:]:
        file.seek(start)
        line = file.readline()
        yield _result(line, start + len(line))


def _line_start(file: IO[bytes], end: int) -> int:
    """The start of the line that ends at ``end``."""
    start = end - 1
    while start > 0:
        begin = max(0, start - _BLOCK)
        file.seek(begin)
        found = file.read(start - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        start = begin
    return 0


@lru_cache(maxsize=4)
def _input_order(path: Path, _inode: int, size: int) -> list[tuple[str, int, int, int]]:
    """Benchmark, row, sample and start of each complete line in the first ``size`` bytes."""
    order, start = [], 0
    with open(path, "rb") as file:
        while start < size and (line := file.readline()).endswith(b"\n"):
            found = json.loads(line)
            row = int(found["index"]), int(found.get("sample", 0))
            order.append((found.get("benchmark") or "", *row, start))
            start += len(line)
    return sorted(order)


def _result(line: bytes, end: int) -> SampleResult:
    return SampleResult(id=f"evalres-{end}", **json.loads(line))


def read_results(job_dir: Path) -> Iterator[SampleResult]:
    """All complete rows, in the order in which samples finished; none without a file."""
    try:
        with open(job_dir / RESULTS, "rb") as file:
            while (line := file.readline()).endswith(b"\n"):
                yield SampleResult(id="", **json.loads(line))
    except FileNotFoundError:
        return


def _position(after: str | None) -> int:
    if after is None:
        return 0
    match = _RESULT_ID.fullmatch(after)
    if match is None:
        raise _unknown_result()
    return int(match["position"])


def _check(file: IO[bytes], position: int) -> None:
    """Raise `InvalidRequest` unless a line ends at ``position``."""
    if position == 0:
        return
    if position > file.seek(0, SEEK_END):
        raise _unknown_result()
    file.seek(position - 1)
    if file.read(1) != b"\n":
        raise _unknown_result()


def _unknown_result() -> InvalidRequest:
    return InvalidRequest("not a result of this evaluation", param="after")
