"""A turn of a model as it arrives: pieces of reasoning, text and calls, then how it ended."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.dialects.exchange import ModelAnswer


@dataclass(frozen=True)
class CallDelta:
    """A piece of the turn's call ``index``; the first has its ``id`` and ``name``."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True)
class TurnUsage:
    """Tokens of a turn so far."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True)
class Delta:
    """What a turn has grown by. The last with a ``finish_reason`` ends it: ``stop``, ``length`` or
    ``tool_calls``; ``stop_sequence`` is the stop text that was met."""

    reasoning: str = ""
    content: str = ""
    calls: tuple[CallDelta, ...] = ()
    finish_reason: str | None = None
    stop_sequence: str | None = None
    usage: TurnUsage | None = None


def deltas_of(answer: ModelAnswer) -> Iterator[Delta]:
    """A whole answer as the deltas of a stream."""
    usage = TurnUsage(answer.prompt_tokens, answer.completion_tokens)
    yield Delta(usage=TurnUsage(answer.prompt_tokens))
    if answer.reasoning is not None:
        yield Delta(reasoning=answer.reasoning)
    if answer.content:
        yield Delta(content=answer.content)
    for index, call in enumerate(answer.calls):
        yield Delta(calls=(CallDelta(index, call.id, call.name, call.arguments_json),))
    finish = "tool_calls" if answer.calls else answer.finish_reason
    yield Delta(finish_reason=finish, usage=usage)
