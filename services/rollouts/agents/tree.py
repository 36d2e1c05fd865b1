"""The turns of a session as a tree: each turn continues the tokens of the one before.

An agent sends its whole conversation with every request. A request continues the recorded turn
whose conversation, with the answer that was given to it, is its beginning; what the agent changed
begins a sequence of its own. Token ids are never made a second time from text.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from services.contracts.base import JsonObject
from services.contracts.rollouts.agent_sessions import AgentSequence, SequenceRole
from services.dialects.exchange import Call
from services.inference.token_engine.base import SampledTokens
from services.rollouts.recording import ResponseTokens


@dataclass(eq=False)
class Node:
    """A recorded turn, the answer to the session's ``number``-th request. ``context`` are the
    tokens before it; ``inserted`` those of them that follow the parent's turn, or the whole prompt
    of a root. ``answer`` is the message that the agent got. Times are in seconds since the session
    began."""

    number: int
    parent: "Node | None"
    request: str
    context: list[int]
    inserted: list[int]
    sampled: SampledTokens
    text: str
    answer: JsonObject
    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...]
    calls: tuple[Call, ...]
    started: float
    seconds: float
    children: list["Node"] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        """The tokens up to the end of the turn."""
        return self.context + list(self.sampled.token_ids)

    def path(self) -> list["Node"]:
        """The turns from the root to this one."""
        turns: list[Node] = []
        node: Node | None = self
        while node is not None:
            turns.append(node)
            node = node.parent
        return turns[::-1]


@dataclass(frozen=True)
class TurnSequence:
    """A path from a root to a leaf, and its role."""

    role: SequenceRole
    nodes: Sequence[Node]

    @property
    def messages(self) -> list[JsonObject]:
        """The conversation as the agent had it after the last turn."""
        last = self.nodes[-1]
        return [*last.messages, last.answer]


@dataclass(frozen=True)
class Place:
    """Where a request continues: the turn before it, if any, and the messages after that turn."""

    parent: Node | None
    fresh: tuple[JsonObject, ...]
    request: str


class TurnTree:
    """The turns of one session; used by one event loop.

    Earlier and later are meant as the agent asked, in whichever order the answers came.
    """

    def __init__(self) -> None:
        self._roots: list[Node] = []
        self._answered: dict[str, Node] = {}
        self._nodes: list[Node] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def place(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> Place:
        """Where a request continues the recorded turns: as late as possible."""
        keys = list(_keys(messages, tools))
        for count in range(len(messages) - 1, 0, -1):
            parent = self._answered.get(keys[count])
            if parent is not None:
                return Place(parent, tuple(messages[count:]), keys[-1])
        return Place(None, tuple(messages), keys[-1])

    def add(self, node: Node) -> None:
        """Record a turn; a request that continues it will begin with its answer."""
        (node.parent.children if node.parent else self._roots).append(node)
        self._nodes.append(node)
        key = _next_key(node.request, node.answer)
        self._answered[key] = max(self._answered.get(key, node), node, key=_number)

    def sequences(self) -> list["TurnSequence"]:
        """Every sequence, by the request of its last turn."""
        with_tools = any(root.tools for root in self._roots)
        found = []
        for leaf in sorted((node for node in self._nodes if not node.children), key=_number):
            nodes = leaf.path()
            if any(map(self._is_discarded, nodes)):
                role = SequenceRole.DISCARDED
            elif with_tools and not nodes[0].tools:
                role = SequenceRole.AUXILIARY
            else:
                role = SequenceRole.AGENT
            found.append(TurnSequence(role, nodes))
        return found

    def own(self) -> "TurnSequence | None":
        """The sequence that is the trajectory's own: the last of the agent's."""
        agents = [each for each in self.sequences() if each.role is SequenceRole.AGENT]
        return agents[-1] if agents else None

    def _is_discarded(self, node: Node) -> bool:
        """Whether the same was asked again later, and no later request took this answer up."""
        siblings = node.parent.children if node.parent else self._roots
        return not node.children and any(
            each.request == node.request and each.number > node.number for each in siblings
        )


def _number(node: Node) -> int:
    return node.number


def recorded(sequence: TurnSequence, seen: set[int]) -> AgentSequence:
    """The tokens of a sequence; turns in ``seen`` were in a sequence before and get mask 0.

    Adds the sequence's turns to ``seen``.
    """
    first, *rest = sequence.nodes
    tokens = ResponseTokens()
    for node in (first, *rest):
        if node is not first:
            tokens.append_inserted(node.inserted)
        start = len(tokens)
        tokens.append_sampled(node.sampled)
        if id(node) in seen:
            tokens.mask[start:] = [0] * len(node.sampled.token_ids)
        seen.add(id(node))
    return AgentSequence(
        role=sequence.role,
        turns=len(sequence.nodes),
        prompt_token_ids=first.context,
        response_token_ids=tokens.ids,
        response_mask=tokens.mask,
        log_probs=tokens.log_probs,
        policy_versions=tokens.versions,
        messages=sequence.messages,
        tools=list(sequence.nodes[-1].tools),
        cut_off=any(node.sampled.finish_reason == "length" for node in sequence.nodes),
    )


def _keys(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> Iterator[str]:
    """A key for each beginning of a conversation, from that of no messages on."""
    key = _digest(["tools", *(json.dumps(tool, sort_keys=True) for tool in tools)])
    yield key
    for message in messages:
        key = _next_key(key, message)
        yield key


def _next_key(key: str, message: JsonObject) -> str:
    """The key of a conversation with one message more.

    What agents change when they send a message back does not count: outer spaces of an answer, its
    reasoning, ids of calls, and how their arguments are spaced.
    """
    role, content = str(message["role"]), str(message.get("content") or "")
    if role != "assistant":
        return _digest([key, role, content])
    calls = [call["function"] for call in message.get("tool_calls", ())]
    plain = [[call["name"], json.loads(call["arguments"])] for call in calls]
    return _digest([key, role, content.strip(), json.dumps(plain, sort_keys=True)])


def _digest(parts: Sequence[str]) -> str:
    text = json.dumps(list(parts)).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()
