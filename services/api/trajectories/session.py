"""The turns of an agent's session as a tree, from the tokens of its sequences.

A turn is a run of sampled tokens. A later sequence repeats the turns that it shares with an earlier
one, with mask 0: there it continues the turn that was recorded, token for token.
"""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.contracts.errors import NotFound
from services.contracts.rollouts.agent_sessions import AgentSequence, SequenceRole
from services.contracts.rollouts.tokens import SHOWN_CHARACTERS, SessionTurn, SessionTurns
from services.contracts.rollouts.trajectories import Trajectory

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def sequences_of(trajectory: Trajectory) -> list[AgentSequence]:
    """All sequences of a session, the trajectory's own first; none without an agent."""
    agent = trajectory.agent
    if agent is None:
        return []
    own = AgentSequence(
        role=SequenceRole.AGENT,
        turns=len(trajectory.turns),
        prompt_token_ids=trajectory.prompt_token_ids,
        response_token_ids=trajectory.response_token_ids,
        response_mask=trajectory.response_mask,
        log_probs=trajectory.log_probs,
        policy_versions=trajectory.policy_versions,
        messages=agent.messages,
        tools=trajectory.tools,
    )
    return [own, *agent.other_sequences]


def sequence_of(trajectory: Trajectory, number: int) -> Trajectory:
    """The trajectory with the tokens of one of its sequences; raises `NotFound`."""
    sequences = sequences_of(trajectory)
    if number == 0:
        return trajectory
    if number >= len(sequences):
        raise NotFound(
            f"{trajectory.id} has no sequence {number}", param="sequence", code="sequence_not_found"
        )
    sequence = sequences[number]
    return trajectory.model_copy(
        update={
            "prompt_token_ids": sequence.prompt_token_ids,
            "response_token_ids": sequence.response_token_ids,
            "response_mask": sequence.response_mask,
            "log_probs": sequence.log_probs,
            "policy_versions": sequence.policy_versions,
        }
    )


@dataclass(frozen=True)
class _Found:
    """A turn: the tokens of its sequence from ``inserted`` to ``start`` were inserted before it,
    and those up to ``end`` were sampled."""

    parent: int | None
    sequence: int
    inserted: int
    start: int
    end: int


def session_turns(
    trajectory: Trajectory, tokenizer: "Tokenizer | str", start: int, limit: int
) -> SessionTurns:
    """Up to ``limit`` turns from turn ``start`` on.

    ``tokenizer`` may be the reason why there is none; then turns have no text.
    """
    sequences = sequences_of(trajectory)
    turns = list(_turns(sequences))
    end = min(start + limit, len(turns))
    return SessionTurns(
        trajectory_id=trajectory.id,
        total=len(turns),
        text_error=tokenizer if isinstance(tokenizer, str) else None,
        data=[_view(number, turns[number], sequences, tokenizer) for number in range(start, end)],
        next_start=end if end < len(turns) else None,
    )


def _turns(sequences: Sequence[AgentSequence]) -> Iterator[_Found]:
    known: dict[bytes, int] = {}
    count = 0
    for number, sequence in enumerate(sequences):
        tokens = array("q", sequence.prompt_token_ids + sequence.response_token_ids)
        digest, hashed = hashlib.blake2b(digest_size=16), 0
        parent, inserted = None, 0
        for start, end, is_shared in _runs(sequence):
            digest.update(tokens[hashed:end].tobytes())
            key, hashed = digest.digest(), end
            if is_shared and key in known:
                parent = known[key]
            else:
                yield _Found(parent, number, inserted, start, end)
                known[key] = parent = count
                count += 1
            inserted = end


def _runs(sequence: AgentSequence) -> Iterator[tuple[int, int, bool]]:
    """Where the turns of a sequence begin and end, and whether an earlier one has them too."""
    prompt = len(sequence.prompt_token_ids)
    sampled = [
        bool(mask) or version >= 0
        for mask, version in zip(sequence.response_mask, sequence.policy_versions, strict=True)
    ]
    begin: int | None = None
    for at, is_sampled in enumerate([*sampled, False]):
        if is_sampled and begin is None:
            begin = at
        elif not is_sampled and begin is not None:
            yield prompt + begin, prompt + at, not sequence.response_mask[begin]
            begin = None


def _view(
    number: int, turn: _Found, sequences: Sequence[AgentSequence], tokenizer: "Tokenizer | str"
) -> SessionTurn:
    sequence = sequences[turn.sequence]
    tokens = sequence.prompt_token_ids + sequence.response_token_ids
    text = inserted = None
    if not isinstance(tokenizer, str):
        # A token has at least a byte of text, but for those that end a turn.
        text = _text(tokenizer, tokens[turn.start : turn.end][: 2 * SHOWN_CHARACTERS])
        inserted = _text(tokenizer, tokens[turn.inserted : turn.start][-2 * SHOWN_CHARACTERS :])
    return SessionTurn(
        number=number,
        parent=turn.parent,
        sequence=turn.sequence,
        role=sequence.role,
        token_start=turn.start,
        sampled_tokens=turn.end - turn.start,
        inserted_tokens=turn.start - turn.inserted,
        text=None if text is None else text[:SHOWN_CHARACTERS],
        inserted=None if inserted is None else inserted[-SHOWN_CHARACTERS:],
    )


def _text(tokenizer: "Tokenizer", tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), skip_special_tokens=False))
