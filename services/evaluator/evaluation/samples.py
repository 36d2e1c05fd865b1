"""The samples of an evaluation file: a conversation to answer and the golds to compare with."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.benchmarks import Benchmark
from services.contracts.rewards.graders import GoldGrader, MathGrader, TokenF1Grader
from services.contracts.rewards.rewards import EvaluationGrader, PairwiseJudgeReward, SearchEmReward
from services.datasets.messages import text_of
from services.datasets.questions import gold_of, question_of
from services.datasets.reader import open_records
from services.datasets.record import (
    JsonValue,
    Problem,
    RowError,
    UnreadableFile,
    shown,
    without_padding,
)
from services.evaluator.evaluation.benchmark_rows import evaluation_row, question_and_options
from services.metrics.contamination import said_by_users
from services.metrics.extraction import at_path
from services.rewards.graders.gold import ExactMatch, matcher
from services.rewards.graders.meaning import MathGolds


@dataclass(frozen=True, slots=True)
class EvaluationSample:
    """One row of an evaluation file, to be answered once.

    ``index`` counts rows from 0, ``sample`` the answers to one row. ``messages`` are ready to be
    sent to a chat endpoint: a ``prompt`` has become one user message, and keys that were null are
    gone. ``gold`` is empty for graders that need none; numbers are written as JSON writes them.
    ``extra`` is every other key of the row, unchanged. ``tags`` name what kind of row it is.
    ``rows_before`` counts the rows of the benchmarks that the evaluation has before this one.
    ``question`` is what is asked, without system messages and a benchmark's prompt around it, and
    ``options`` the lines with a benchmark's options.
    """

    index: int
    messages: tuple[JsonObject, ...]
    gold: tuple[str, ...]
    extra: JsonObject
    sample: int = 0
    rows_before: int = 0
    tags: tuple[str, ...] = ()
    question: str = field(default="", compare=False)
    options: str = field(default="", compare=False)

    @property
    def prompt_index(self) -> int:
        """The row, counted over all benchmarks of the evaluation."""
        return self.rows_before + self.index

    def opened(self, system_prompt: str | None) -> Sequence[JsonObject]:
        """The messages, after a system prompt unless they begin with one."""
        if system_prompt is None or self.messages[0].get("role") == "system":
            return self.messages
        return [{"role": "system", "content": system_prompt}, *self.messages]

    def prompt(self, most: int) -> str:
        """The first ``most`` characters of the prompt, with roles if it has several messages."""
        texts = [text_of(message) for message in self.messages]
        if len(texts) > 1:
            roles = (message.get("role") for message in self.messages)
            texts = [f"{role}: {text}" for role, text in zip(roles, texts, strict=True)]
        return "\n\n".join(texts)[:most]


_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")


class GoldCheck(Protocol):
    """What a grader demands of golds."""

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when no answer could ever match this gold."""


class GoldsInRange:
    """Integers between two others, both included, that the grader can use as well."""

    def __init__(self, answer_range: tuple[int, int], usable: GoldCheck | None) -> None:
        self._lowest, self._highest = answer_range
        self._usable = usable

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` for any other gold."""
        if self._usable is not None:
            self._usable.check_gold(gold)
        if _INTEGER.fullmatch(gold) is None or not self._lowest <= int(gold) <= self._highest:
            bounds = f"from {self._lowest} to {self._highest}"
            raise InvalidRequest(f"{gold[:80]!r} is not an integer {bounds}")


def gold_check(grader: EvaluationGrader) -> GoldCheck | None:
    """The check of a grader that compares with golds; None: rows need no golds.

    Raises ``InvalidRequest`` for a grader that cannot work.
    """
    match grader:
        case MathGrader():
            return MathGolds()
        case TokenF1Grader() | SearchEmReward() | PairwiseJudgeReward():
            return ExactMatch(ignore_case=True)
    return matcher(grader) if isinstance(grader, GoldGrader) else None


def read_samples(
    path: Path, golds: GoldCheck | None = None, benchmark: Benchmark | None = None
) -> Iterator[EvaluationSample]:
    """Read the samples of an evaluation file (JSONL, JSON or Parquet) one by one.

    Raises UnreadableFile at the first row that is not a sample.
    """
    for index, record in enumerate(open_records(path)):
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        try:
            yield parse_sample(record.value, index, golds, benchmark)
        except RowError as error:
            raise UnreadableFile(error.message, row=record.row) from None


def parse_sample(
    row: JsonValue, index: int, golds: GoldCheck | None = None, benchmark: Benchmark | None = None
) -> EvaluationSample:
    """Turn a row into a sample; its golds are required and checked if ``golds`` is given.

    With ``benchmark`` the row is one of its data set. Raises RowError naming the path at fault.
    """
    row = without_padding(row)
    tags = _tags(row, benchmark)
    asked = None
    if benchmark is not None and isinstance(row, dict):
        asked = question_and_options(row, benchmark)
    if benchmark is not None:
        row = evaluation_row(row, benchmark)
        if benchmark.answer_range is not None:
            golds = GoldsInRange(benchmark.answer_range, golds)
    if not isinstance(row, dict):
        raise RowError(f"is {shown(row)}, not an object with prompt or messages, and gold")
    key, question = question_of(row)
    messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
    said, options = asked or (said_by_users(messages), "")
    extra = {name: row[name] for name in row if name not in {"messages", key, gold_of(row)[0]}}
    return EvaluationSample(
        index,
        tuple(map(_without_nulls, messages)),
        _checked_golds(row, golds, benchmark),
        extra,
        tags=tags,
        question=said,
        options=options,
    )


def _tags(row: JsonValue, benchmark: Benchmark | None) -> tuple[str, ...]:
    """The texts at ``tag``, ``tags`` and the paths of the sub-task; other values are ignored."""
    found: list[JsonValue] = []
    for path in ("tag", "tags", *(benchmark.subtasks if benchmark else ())):
        try:
            value = at_path(row, path)
        except LookupError:
            continue
        found += value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(each for each in found if isinstance(each, str)))


def _without_nulls(message: JsonObject) -> JsonObject:
    return {key: value for key, value in message.items() if value is not None}


def _checked_golds(
    row: JsonObject, golds: GoldCheck | None, benchmark: Benchmark | None
) -> tuple[str, ...]:
    path, texts = gold_of(row)
    if golds is None:
        return texts
    if not path:
        raise RowError("gold is missing")
    if not texts:
        raise RowError(f"{path} is an empty list; give at least one text or number")
    for position, text in enumerate(texts):
        try:
            golds.check_gold(text)
        except InvalidRequest as error:
            name = path if benchmark is None else benchmark.answer
            place = f"{name}[{position}]" if isinstance(row.get(path), list) else name
            raise RowError(f"{place}: {error.message}") from None
    return texts
