"""Conversations of answers with tools, as folds and as table rows."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.evaluation.results import SampleResult
from services.contracts.rollouts.trajectories import CallOutcome, ToolCallRecord, Trajectory, Turn
from services.metrics.reports.document import Cell, Fold

MAX_TEXT = 10_000
"""Maximum characters shown of a message, an argument or a reply."""

CONVERSATION_COLUMNS = (
    *("evaluation", "benchmark", "row", "sample", "outcome"),
    *("turn", "part", "text"),
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A row of an evaluation, and its answers."""

    evaluation: str
    row: SampleResult
    trajectory: Trajectory


def without_tokens(trajectory: Trajectory) -> Trajectory:
    """The trajectory without its lists of tokens, which are most of its memory."""
    lists = ("prompt_token_ids", "response_token_ids", "response_mask", "log_probs")
    return trajectory.model_copy(update={name: [] for name in (*lists, "policy_versions")})


@dataclass(frozen=True, slots=True)
class Step:
    """A text of a conversation. ``turn`` counts from 1; the prompt comes before, in turn 0."""

    turn: int
    title: str
    text: str


def steps(trajectory: Trajectory) -> Iterator[Step]:
    """Messages, calls and replies in order; long texts are truncated, with a note."""
    for message in trajectory.messages:
        yield Step(0, str(message.get("role", "?")), _bounded(_said(message)))
    for number, turn in enumerate(trajectory.turns, start=1):
        yield from _of_turn(number, turn)
    if trajectory.error is not None:
        yield Step(len(trajectory.turns), "error", _bounded(trajectory.error))


def conversation_rows(conversations: Iterable[Conversation]) -> Iterator[Sequence[Cell]]:
    """A row of a table for each step."""
    for each in conversations:
        row = each.row
        place = (each.evaluation, row.benchmark, row.index, row.sample, row.outcome)
        for step in steps(each.trajectory):
            yield (*place, step.turn, step.title, step.text)


def conversation_folds(conversations: Iterable[Conversation]) -> Iterator[Fold]:
    """A fold for each conversation, with one for its prompt and one for each turn."""
    for each in conversations:
        yield Fold(_heading(each), _turn_folds(each))


def _turn_folds(each: Conversation) -> Iterator[Fold]:
    for turn, said in groupby(steps(each.trajectory), key=lambda step: step.turn):
        yield Fold(_turn_heading(turn, each), ((step.title, step.text) for step in said))


def _of_turn(number: int, turn: Turn) -> Iterator[Step]:
    title = f"assistant: {turn.token_count} tokens, {turn.finish_reason}"
    yield Step(number, title, _bounded(turn.text))
    for malformed in turn.malformed:
        yield Step(number, f"unreadable call: {malformed.reason}", _bounded(malformed.text))
    for call in turn.calls:
        yield from _of_call(number, call)


def _of_call(number: int, call: ToolCallRecord) -> Iterator[Step]:
    was_run = call.outcome is not CallOutcome.DROPPED
    ended = f"{call.outcome} in {call.seconds:.1f} s" if was_run else "not run"
    arguments = [f"{name}: {_text(value)}" for name, value in (call.arguments or {}).items()]
    yield Step(number, f"call of {call.name}: {ended}", _bounded("\n".join(arguments)))
    if call.shown is not None:
        yield Step(number, f"result of {call.name}", _bounded(call.shown))


def _heading(each: Conversation) -> str:
    row, played = each.row, each.trajectory
    benchmark = f"{row.benchmark} " if row.benchmark is not None else ""
    sample = f".{row.sample}" if row.sample else ""
    taken = f"turns: {len(played.turns)}, calls: {played.tool_calls}"
    failed = f" ({played.failed_calls} failed)" if played.failed_calls else ""
    return (
        f"{each.evaluation}, {benchmark}row {row.index}{sample}: {row.outcome}, {taken}{failed},"
        f" {played.finish_reason}"
    )


def _turn_heading(turn: int, each: Conversation) -> str:
    if turn == 0:
        return "prompt"
    calls = ", ".join(call.name for call in each.trajectory.turns[turn - 1].calls)
    return f"turn {turn}, calls of {calls}" if calls else f"turn {turn}"


def _said(message: JsonObject) -> str:
    """The content of a message, and its calls as JSON."""
    parts = (message.get("content"), message.get("tool_calls"))
    return "\n".join(_text(part) for part in parts if part)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bounded(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT:,} more characters]"
