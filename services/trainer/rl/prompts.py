"""Training prompts: reading the rows of a file, and sampling them in a reproducible order: whole
epochs, or sources in proportion to their weights."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.rollouts.multi_turn import PromptType
from services.contracts.rollouts.sources import source_of
from services.datasets.messages import check_messages
from services.datasets.questions import worked_answer
from services.datasets.reader import open_records
from services.datasets.record import (
    JsonValue,
    Problem,
    RowError,
    UnreadableFile,
    counted,
    without_padding,
)
from services.rollouts.prompts import Prompt, prompt_of_row

MAX_ROWS = 1_000_000
"""All rows are held in memory, so that every epoch can shuffle them."""


@dataclass(frozen=True, slots=True)
class TrainingPrompt:
    """A prompt, and the messages that demonstrate an answer to it; empty where the data has
    none."""

    prompt: Prompt
    answers: tuple[JsonObject, ...] = ()


def read_row(row: JsonValue, index: int, prompt_type: PromptType) -> TrainingPrompt:
    """Read a row: ``messages`` may end with a demonstration; for a row with a question, the
    demonstration is its first gold, worked solution included. Raises RowError."""
    row = without_padding(row)
    if isinstance(row, dict) and isinstance(row.get("messages"), list):
        asked, answers = _split(check_messages(row["messages"]))
        return TrainingPrompt(
            prompt_of_row({**row, "messages": asked}, index, prompt_type), answers
        )
    prompt = prompt_of_row(row, index, prompt_type)
    answer = worked_answer(row)
    return TrainingPrompt(
        prompt, () if answer is None else ({"role": "assistant", "content": answer},)
    )


def read_rows(path: Path, prompt_type: PromptType) -> list[TrainingPrompt]:
    """All rows of a file; raises UnreadableFile at the first invalid one."""
    rows: list[TrainingPrompt] = []
    for record in open_records(path):
        if len(rows) == MAX_ROWS:
            raise UnreadableFile(f"has more than {counted(MAX_ROWS, 'row')}", row=record.row)
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        try:
            rows.append(read_row(record.value, len(rows), prompt_type))
        except RowError as error:
            raise UnreadableFile(error.message, row=record.row) from None
    if not rows:
        raise UnreadableFile("the file holds no rows")
    return rows


def _split(messages: list[JsonObject]) -> tuple[list[JsonObject], tuple[JsonObject, ...]]:
    """Split messages into the prompt and the demonstrated answer.

    The answer is what follows the last user message, if the last message is from the assistant.
    """
    if messages[-1]["role"] != "assistant":
        return messages, ()
    asked = max(
        (place for place, message in enumerate(messages) if message["role"] == "user"), default=-1
    )
    if asked < 0:
        raise RowError("messages have an answer of the assistant, but no user before it")
    return messages[: asked + 1], tuple(messages[asked + 1 :])


@dataclass(frozen=True)
class SampledPrompt:
    """A prompt that was drawn; ``number`` counts all draws from 0."""

    number: int
    row: TrainingPrompt

    @property
    def prompt(self) -> Prompt:
        """The prompt itself."""
        return self.row.prompt


CYCLE = 1000
"""Draws in which each source has its share, rounded to whole draws."""
ALL = ""
"""The name of the one source of rows whose sources have no weights."""


class PromptOrder(Protocol):
    """Maps a draw number to a row, determined by a seed."""

    def row(self, draw: int) -> int:
        """The row of a draw."""
        ...

    def replace(self, draw: int) -> bool:
        """Note that the row of the latest draw cannot be used, and that the next draw takes its
        place; False if no row is left that could."""
        ...


class EpochShuffle:
    """Each epoch is a full shuffle."""

    def __init__(self, rows: int, seed: int | str) -> None:
        self._rows = rows
        self._seed = seed
        self._epoch = -1
        self._shuffled: list[int] = []
        self._unusable: set[int] = set()

    def row(self, draw: int) -> int:
        """See `PromptOrder`."""
        epoch, place = divmod(draw, self._rows)
        if epoch != self._epoch:
            self._shuffled = list(range(self._rows))
            random.Random(f"{self._seed}:{epoch}").shuffle(self._shuffled)  # noqa: S311 - no secret
            self._epoch = epoch
        return self._shuffled[place]

    def replace(self, draw: int) -> bool:
        """See `PromptOrder`."""
        self._unusable.add(self.row(draw))
        return len(self._unusable) < self._rows


class SourceTurns:
    """Whose turn it is: sources take turns in proportion to their weights, and each has shuffled
    epochs of its own rows; a row whose source has no weight is never drawn. Without weights all
    rows are of one source, `ALL`.

    ``sources`` are those of the rows. Raises `InvalidRequest` for a weighted source without rows.
    """

    def __init__(
        self, sources: Sequence[str | None], weights: Mapping[str, float], seed: int
    ) -> None:
        self._sources = sources if weights else [ALL] * len(sources)
        self._members: dict[str, list[int]] = {name: [] for name in weights or [ALL]}
        for row, source in enumerate(self._sources):
            if source is not None and source in self._members:
                self._members[source].append(row)
        empty = [name for name, members in self._members.items() if not members]
        if empty:
            message = f"no row of the training file has the source {empty[0]!r}"
            raise InvalidRequest(message, param="source_weights")
        self._orders = {
            name: EpochShuffle(len(members), f"{seed}:{name}" if name else seed)
            for name, members in self._members.items()
        }
        self._cycle = _spread(_shares(weights or {ALL: 1.0}))

    def at(self, turn: int) -> str:
        """The source whose turn it is."""
        return self._cycle[turn % len(self._cycle)]

    def row(self, source: str, number: int) -> int:
        """A row of a source by its number in the source's epochs."""
        return self._members[source][self._orders[source].row(number)]

    def counts(self, turns: int) -> dict[str, int]:
        """How many of the first turns each source has."""
        cycles, rest = divmod(turns, len(self._cycle))
        whole, begun = Counter(self._cycle), Counter(self._cycle[:rest])
        return {name: cycles * whole[name] + begun[name] for name in self._members}

    def row_of(self, turn: int) -> int:
        """The row of a turn, where each was a draw from the source's epochs."""
        name = self.at(turn)
        return self.row(name, self.counts(turn)[name])

    def source_of(self, row: int) -> str:
        """The source of a row that can be drawn."""
        source = self._sources[row]
        assert source is not None  # noqa: S101 - only rows of sources with a weight are drawn
        return source

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows each source has."""
        return {name: len(members) for name, members in self._members.items()}


def _shares(weights: Mapping[str, float]) -> dict[str, int]:
    """Draws of each source in a cycle, at least one."""
    whole = sum(weights.values())
    return {name: max(1, round(CYCLE * weight / whole)) for name, weight in weights.items()}


def _spread(shares: Mapping[str, int]) -> list[str]:
    """A cycle with the shares.

    The source that lacks most is next, so that every batch has about its shares.
    """
    whole = sum(shares.values())
    cycle: list[str] = []
    drawn = dict.fromkeys(shares, 0)
    for place in range(1, whole + 1):
        lacking = {each: share * place / whole - drawn[each] for each, share in shares.items()}
        name = max(lacking, key=lacking.__getitem__)
        cycle.append(name)
        drawn[name] += 1
    return cycle


class PromptSampler:
    """Draws prompts in a reproducible order; ``position`` is the number of the next draw.

    ``length_of`` counts the tokens of a prompt; prompts longer than ``max_length``, or refused by
    the chat template, are skipped and counted in ``skipped``. ``param`` is the request field that
    names the file. ``order`` maps draws to rows; by default each epoch is a shuffle by the seed.
    """

    def __init__(
        self,
        rows: Sequence[TrainingPrompt],
        seed: int,
        length_of: Callable[[Prompt], int],
        max_length: int,
        position: int = 0,
        skipped: int = 0,
        param: str = "training_file",
        order: PromptOrder | None = None,
    ) -> None:
        self._rows = rows
        self._order: PromptOrder = order or EpochShuffle(len(rows), seed)
        self._length_of = length_of
        self._max_length = max_length
        self._param = param
        self._refused: dict[int, str] = {}
        self.position = position
        self.skipped = skipped

    def at(self, number: int) -> SampledPrompt:
        """The prompt of a draw number, as before a restart."""
        return SampledPrompt(number, self._rows[self._order.row(number)])

    def next(self) -> SampledPrompt:
        """The next usable prompt; raises `JobFailed` if there is none at all, or none of the source
        whose turn it is."""
        while True:
            draw = self.at(self.position)
            self.position += 1
            if self._is_usable(draw.prompt):
                return draw
            self.skipped += 1
            if not self._order.replace(draw.number):
                raise self._none_usable(draw.prompt)

    def usable(self) -> list[SampledPrompt]:
        """Every usable prompt once, independent of the position. Raises `JobFailed` if there is
        none."""
        prompts = [self.at(number) for number in range(len(self._rows))]
        found = [draw for draw in prompts if self._is_usable(draw.prompt)]
        if not found:
            raise self._none_usable(prompts[0].prompt)
        return found

    def _none_usable(self, prompt: Prompt) -> JobFailed:
        """The failure for which ``prompt``, which is refused, is an example."""
        everything = len(self._refused) == len(self._rows)
        whose = "" if everything else f" of the source {source_of(prompt.extra)!r}"
        message = f"no prompt{whose} is usable: {self._refused[prompt.index]}"
        return JobFailed(message, code="no_usable_prompt", param=self._param)

    def _is_usable(self, prompt: Prompt) -> bool:
        if prompt.index not in self._refused and (reason := self._reason(prompt)):
            self._refused[prompt.index] = f"row {prompt.index + 1} {reason}"
        return prompt.index not in self._refused

    def _reason(self, prompt: Prompt) -> str | None:
        try:
            length = self._length_of(prompt)
        except InvalidRequest as error:
            return f"is refused by the chat template: {error.message}"
        if length > self._max_length:
            return f"has {length:,} tokens; max_prompt_length is {self._max_length:,}"
        return None
