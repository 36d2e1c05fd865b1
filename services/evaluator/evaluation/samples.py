"""The samples of an evaluation file: a conversation to answer and the golds to compare with."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.graders import GoldGrader, Grader
from services.datasets.messages import check_messages
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem, RowError, UnreadableFile, shown
from services.rewards.graders.gold import Matcher, matcher

_OWN_KEYS = frozenset({"messages", "prompt", "gold"})


@dataclass(frozen=True, slots=True)
class EvaluationSample:
    """One row of an evaluation file.

    ``index`` counts samples from 0. ``messages`` are ready to be sent to a chat endpoint: a
    ``prompt`` has become one user message, and keys that were null are gone. ``gold`` is empty for
    graders that need none; numbers are written as JSON writes them. ``extra`` is every other key of
    the row, unchanged.
    """

    index: int
    messages: tuple[JsonObject, ...]
    gold: tuple[str, ...]
    extra: JsonObject


def gold_matcher(grader: Grader) -> Matcher | None:
    """What the golds of a file must fit; None for a grader that needs no golds."""
    return matcher(grader) if isinstance(grader, GoldGrader) else None


def read_samples(path: Path, golds: Matcher | None = None) -> Iterator[EvaluationSample]:
    """Read the samples of an evaluation file (JSONL, JSON or Parquet) one by one.

    Raises UnreadableFile at the first row that is not a sample.
    """
    for index, record in enumerate(open_records(path)):
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        try:
            yield parse_sample(record.value, index, golds)
        except RowError as error:
            raise UnreadableFile(error.message, row=record.row) from None


def parse_sample(row: JsonValue, index: int, golds: Matcher | None = None) -> EvaluationSample:
    """Turn a row into a sample; its golds are required and checked if ``golds`` is given.

    Raises RowError naming the path at fault.
    """
    if not isinstance(row, dict):
        raise RowError(f"is {shown(row)}, not an object with prompt or messages, and gold")
    messages = _messages(row)
    gold = tuple(_golds(row.get("gold"), golds))
    extra = {key: value for key, value in row.items() if key not in _OWN_KEYS}
    return EvaluationSample(index, messages, gold, extra)


def _messages(row: JsonObject) -> tuple[JsonObject, ...]:
    prompt, messages = row.get("prompt"), row.get("messages")
    if prompt is None and messages is None:
        raise RowError("messages is missing (or prompt, in its place)")
    if prompt is not None and messages is not None:
        raise RowError("has both prompt and messages; give one of them")
    if messages is None:
        if not isinstance(prompt, str):
            raise RowError(f"prompt is {shown(prompt)}, not a text")
        if not prompt.strip():
            raise RowError("prompt is empty")
        return ({"role": "user", "content": prompt},)
    checked = check_messages(messages)
    last = checked[-1]["role"]
    if last == "assistant":
        place = f"messages[{len(checked) - 1}]"
        raise RowError(f"{place}.role is 'assistant'; the last message is one for it to answer")
    return tuple(
        {key: value for key, value in message.items() if value is not None} for message in checked
    )


def _golds(gold: JsonValue, golds: Matcher | None) -> Iterator[str]:
    if gold is None:
        if golds is None:
            return
        raise RowError("gold is missing")
    if not isinstance(gold, list):
        yield _gold(gold, "gold", golds)
        return
    if not gold:
        raise RowError("gold is an empty list; give at least one text or number")
    for position, item in enumerate(gold):
        yield _gold(item, f"gold[{position}]", golds)


def _gold(value: JsonValue, place: str, golds: Matcher | None) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError(f"{place} is {shown(value)}, not a text or a number")
    text = value if isinstance(value, str) else repr(value)
    if "\0" in text:
        raise RowError(f"{place} holds the character U+0000, which cannot be stored")
    if golds is not None:
        try:
            golds.check_gold(text)
        except InvalidRequest as error:
            raise RowError(f"{place}: {error.message}") from None
    return text
