"""Trajectories as text for a terminal."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from services.contracts.base import JsonObject
    from services.contracts.rollouts.tool_runs import ToolRun
    from services.contracts.rollouts.trajectories import ToolCallRecord, Trajectory, Turn
    from services.contracts.sandbox.programs import CommandResult

_INDENT = "    "
_CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Control characters, surrogates, and line separators other than newline."""
_BIDI_CONTROLS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Bidirectional controls, which can disguise a line."""


@dataclass(frozen=True)
class _Line:
    text: str
    mask: int | None = None


def render(trajectory: Trajectory, *, masks: bool = False) -> str:
    """Return turns, tool calls, results and rewards as text that ends with a newline.

    With ``masks``, a line starts with 1 where the model sampled it and with 0 where it was
    inserted. Terminal control characters are escaped.
    """
    lines = [*_head(trajectory), *_prompt(trajectory)]
    for number, turn in enumerate(trajectory.turns, start=1):
        lines += _turn(number, turn)
    lines += _end(trajectory)
    return "".join(f"{_margin(line, masks)}{escaped(line.text)}\n" for line in lines)


def _margin(line: _Line, masks: bool) -> str:
    if not masks:
        return ""
    return f"{' ' if line.mask is None else line.mask} | "


def _head(trajectory: Trajectory) -> Iterator[_Line]:
    inserted = trajectory.response_tokens - trajectory.sampled_tokens
    estimated = " (estimated in part)" if trajectory.has_estimates else ""
    failed = f" ({trajectory.failed_calls} failed)" if trajectory.failed_calls else ""
    yield _Line(
        f"{trajectory.id}: sample {trajectory.sample_index} of prompt {trajectory.prompt_index},"
        f" {trajectory.finish_reason}, {_reward(trajectory)}"
    )
    yield _Line(
        f"tokens: {trajectory.prompt_tokens} of the prompt, {trajectory.sampled_tokens}"
        f" sampled, {inserted} inserted{estimated}; turns: {len(trajectory.turns)}; calls:"
        f" {trajectory.tool_calls}{failed}; {trajectory.seconds:.1f} s, of which"
        f" {trajectory.model_seconds:.1f} in the model and {trajectory.tool_seconds:.1f} in tools"
    )


def _reward(trajectory: Trajectory) -> str:
    if trajectory.reward is None:
        return "no reward"
    parts = ", ".join(f"{name} {score:.4g}" for name, score in trajectory.reward_components.items())
    return f"reward {trajectory.reward:.4g}" + (f" ({parts})" if parts else "")


def _prompt(trajectory: Trajectory) -> Iterator[_Line]:
    if trajectory.tools:
        names = [str(tool.get("function", {}).get("name")) for tool in trajectory.tools]
        yield from _titled(f"tools: {', '.join(names)}")
    for message in trajectory.messages:
        yield from _titled(str(message.get("role", "?")))
        yield from _block(_content_of(message), 0)


def _content_of(message: JsonObject) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else _json(content) if content else ""
    calls = message.get("tool_calls")
    return "\n".join(part for part in (text, _json(calls) if calls else "") if part)


def _turn(number: int, turn: Turn) -> Iterator[_Line]:
    yield from _titled(
        f"assistant, turn {number}: {turn.token_count} tokens in {turn.seconds:.1f} s,"
        f" {turn.finish_reason}"
    )
    yield from _block(turn.text, 1)
    for malformed in turn.malformed:
        yield from _titled(f"malformed call: {malformed.reason}")
    for call in turn.calls:
        yield from _call(call)


def _call(call: ToolCallRecord) -> Iterator[_Line]:
    from services.contracts.rollouts.trajectories import CallOutcome

    if call.outcome is CallOutcome.DROPPED:
        yield from _titled(f"call of {call.name}: not run")
        return
    attempts = f" at attempt {call.attempts}" if call.attempts > 1 else ""
    yield from _titled(f"call of {call.name}: {call.outcome}{attempts} in {call.seconds:.1f} s")
    for name, value in (call.arguments or {}).items():
        yield _Line(f"{name}:")
        text = value if isinstance(value, str) else _json(value)
        yield from (_Line(_INDENT + line) for line in text.split("\n"))
    if call.error is not None:
        yield _Line(f"error: {call.error}")
    yield from _run(call.run)
    if call.shown is None:
        yield _Line("no result was inserted")
        return
    length = f", of {call.reply_characters:,} characters" if call.reply_characters else ""
    yield _Line(f"result{length}:")
    yield from _block(call.shown, 0)


def _run(run: ToolRun | None) -> Iterator[_Line]:
    """Yield a program's outcome, a search's passages, or why a request failed."""
    from services.contracts.rollouts.tool_runs import HttpRun, ProgramRun, RequestFailure, SearchRun

    match run:
        case (
            ProgramRun(failure=RequestFailure() as failure)
            | SearchRun(failure=RequestFailure() as failure)
            | HttpRun(failure=failure)
        ):
            status = "no answer" if failure.status is None else f"HTTP status {failure.status}"
            yield _Line(f"request: {status}, {failure.seconds:.2f} s")
            if failure.answer:
                yield _Line("answer:")
                yield from (_Line(_INDENT + line) for line in failure.answer.split("\n"))
        case ProgramRun():
            ended = run.run_result or run.compile_result
            yield _Line(f"run: {run.status}{'' if ended is None else _command(ended)}")
        case SearchRun():
            for one in run.queries:
                found = (
                    f"{each.id or 'without an id'} ({_score(each.score)})" for each in one.passages
                )
                yield _Line(f"search: {one.query}: {', '.join(found) or 'nothing'}")


def _command(result: CommandResult) -> str:
    parts = [
        f"return code {result.return_code}" if result.return_code is not None else result.status,
        "out of memory" if result.out_of_memory else None,
        f"{result.execution_time:.2f} s" if result.execution_time is not None else None,
        f"{result.peak_memory_mb:.1f} MiB" if result.peak_memory_mb is not None else None,
    ]
    return "".join(f", {part}" for part in parts if part)


def _score(score: float | None) -> str:
    return "no score" if score is None else f"{score:.4g}"


def _end(trajectory: Trajectory) -> Iterator[_Line]:
    yield from _titled(f"end: {trajectory.finish_reason}")
    if trajectory.error is not None:
        yield _Line(f"error: {trajectory.error}")
    if trajectory.reward_error is not None:
        yield _Line(f"no reward: {trajectory.reward_error}")
    if trajectory.left_out is not None:
        lost = trajectory.left_out
        yield _Line(f"left out: {lost.source}: {lost.cause.value} (plays: {trajectory.plays})")
    if trajectory.gold:
        yield _Line(f"gold: {' | '.join(trajectory.gold)}")


def _titled(title: str) -> Iterator[_Line]:
    yield _Line("")
    yield _Line(f"-- {title}")


def _block(text: str, mask: int) -> Iterator[_Line]:
    return (_Line(line, mask) for line in text.split("\n"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def escaped(text: str) -> str:
    """Escape control and bidirectional characters in a line."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    is_control = (
        unicodedata.category(character) in _CONTROL_CATEGORIES
        or unicodedata.bidirectional(character) in _BIDI_CONTROLS
    )
    if not is_control or character == "\t":
        return character
    return character.encode("unicode_escape").decode()
