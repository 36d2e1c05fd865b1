"""Responses in the database. Every write of a run is guarded by its attempt: a run that has lost
its response writes nothing."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session

from services.contracts.base import JsonObject
from services.contracts.errors import Conflict, InvalidRequest, NotFound, Unavailable
from services.core.db.engine import now
from services.core.db.tables import ResponseEventRow, ResponseRow
from services.dialects.deltas import TurnUsage
from services.dialects.responses import response_head
from services.dialects.responses_writer import written_usage

UNFINISHED = ("queued", "in_progress")
CONTINUED = ("completed", "incomplete")
MAX_UNFINISHED = 4096
MAX_TURNS_BACK = 1000
MAX_ATTEMPTS = 5
"""Runs that a response may lose: it may be what kills them."""


@dataclass(frozen=True)
class Claim:
    """The right to write a response, until another run takes it."""

    id: str
    attempt: int


@dataclass(frozen=True)
class Progress:
    """What a run has finished so far."""

    output: list[JsonObject] = field(default_factory=list)
    usage: TurnUsage = field(default_factory=TurnUsage)


@dataclass(frozen=True)
class End:
    """How a response ended."""

    status: str
    error: JsonObject | None = None
    reason: str | None = None


def create(session: Session, row: ResponseRow) -> None:
    """Store a response; raises `Unavailable` when too many are unfinished."""
    unfinished = select(func.count()).where(ResponseRow.status.in_(UNFINISHED))
    if session.execute(unfinished).scalar_one() >= MAX_UNFINISHED:
        raise Unavailable(f"{MAX_UNFINISHED} responses are unfinished", code="too_many_requests")
    row.bytes = len(json.dumps([row.request, row.input]))
    session.add(row)


def find(session: Session, principal: str, identity: str, param: str | None = None) -> ResponseRow:
    """A response of this key; raises `NotFound`, also for one of another key."""
    query = select(ResponseRow).where(
        ResponseRow.id == identity, ResponseRow.principal == principal
    )
    row = session.scalar(query)
    if row is None:
        raise NotFound(f"no response {identity!r}", param=param, code="response_not_found")
    return row


def conversation(session: Session, principal: str, identity: str) -> list[JsonObject]:
    """The items of a stored response and of all that it continues, oldest first."""
    turns: list[list[JsonObject]] = []
    following: str | None = identity
    while following is not None:
        row = find(session, principal, following, "previous_response_id")
        if row.status not in CONTINUED:
            message = f"{row.id} is {row.status}: only an answered response can be continued"
            raise Conflict(message, param="previous_response_id")
        turns.append([*row.input, *row.output])
        following = row.previous_id
        if len(turns) > MAX_TURNS_BACK:
            message = f"continues more than {MAX_TURNS_BACK} responses"
            raise InvalidRequest(message, param="previous_response_id")
    return [item for turn in reversed(turns) for item in turn]


def claim(session: Session, owner: str, lease_seconds: float, limit: int) -> list[Claim]:
    """Take background responses that no run holds."""
    current = now(session)
    query = select(ResponseRow).where(*_free(current)).order_by(ResponseRow.seq).limit(limit)
    taken = []
    for row in session.scalars(query).all():
        if row.attempt >= MAX_ATTEMPTS:
            lost = f"the gateway ended {row.attempt} times while it answered"
            finish(session, Claim(row.id, row.attempt), End("failed", server_error(lost)))
            continue
        claimed = Claim(row.id, row.attempt + 1)
        changed = _change(
            session,
            ResponseRow.id == row.id,
            ResponseRow.attempt == row.attempt,
            attempt=claimed.attempt,
            owner=owner,
            status="in_progress",
            lease_expires_at=current + lease_seconds,
        )
        if changed:
            taken.append(claimed)
    return taken


def is_any_free(session: Session) -> bool:
    """Whether `claim` would find one; reading takes no lock."""
    query = select(ResponseRow.seq).where(*_free(now(session))).limit(1)
    return session.scalar(query) is not None


def _free(current: float) -> tuple[ColumnElement[bool], ...]:
    expired = or_(
        ResponseRow.lease_expires_at.is_(None),
        ResponseRow.lease_expires_at < current,
    )
    return ResponseRow.status.in_(UNFINISHED), ResponseRow.background.is_(True), expired


def renew(session: Session, owner: str, lease_seconds: float) -> set[str]:
    """Extend the leases of a gateway; returns the ids of the responses that it still holds."""
    query = (
        update(ResponseRow)
        .where(ResponseRow.owner == owner, ResponseRow.status == "in_progress")
        .values(lease_expires_at=now(session) + lease_seconds)
        .returning(ResponseRow.id)
    )
    return set(session.scalars(query))


def release(session: Session, owner: str) -> None:
    """Let another gateway continue at once what this one leaves."""
    session.execute(
        update(ResponseRow)
        .where(
            ResponseRow.owner == owner,
            ResponseRow.status == "in_progress",
            ResponseRow.background.is_(True),
        )
        .values(owner=None, lease_expires_at=None)
    )


def save(session: Session, claimed: Claim, progress: Progress) -> bool:
    """Store what is finished; whether the run still holds its response."""
    values = {"output": progress.output, "usage": written_usage(progress.usage)}
    return _change(session, *_held(claimed), **values, bytes=_bytes(session, claimed.id, progress))


def finish(session: Session, claimed: Claim, end: End, progress: Progress | None = None) -> bool:
    """Store the end; whether it is this run's: a response ends once."""
    values: dict[str, Any] = {
        "status": end.status,
        "error": end.error,
        "incomplete": end.reason,
        "owner": None,
        "lease_expires_at": None,
        "finished_at": time.time(),
    }
    if progress is not None:
        values |= {"output": progress.output, "usage": written_usage(progress.usage)}
        values["bytes"] = _bytes(session, claimed.id, progress)
    return _change(session, *_held(claimed), **values)


def append_events(session: Session, claimed: Claim, first: int, lines: Sequence[str]) -> bool:
    """Store events; whether the run still holds its response."""
    size = sum(map(len, lines))
    if not _change(session, *_held(claimed), bytes=ResponseRow.bytes + size):
        return False
    last = first + len(lines) - 1
    session.add(
        ResponseEventRow(response_id=claimed.id, first=first, last=last, lines="\n".join(lines))
    )
    return True


def events_after(session: Session, identity: str, after: int) -> list[str]:
    """The stored events after a number, as lines of JSON."""
    query = (
        select(ResponseEventRow)
        .where(ResponseEventRow.response_id == identity, ResponseEventRow.last > after)
        .order_by(ResponseEventRow.first)
    )
    lines: list[str] = []
    for row in session.scalars(query):
        lines += row.lines.split("\n")[max(0, after + 1 - row.first) :]
    return lines


def next_event(session: Session, identity: str) -> int:
    """The number of the next event."""
    query = select(func.max(ResponseEventRow.last)).where(ResponseEventRow.response_id == identity)
    last = session.scalar(query)
    return 0 if last is None else int(last) + 1


def cancel(session: Session, row: ResponseRow) -> None:
    """End an unfinished background response; raises `InvalidRequest` for another. One that is
    cancelled stays so."""
    if not row.background:
        raise InvalidRequest("only a background response can be cancelled", param="response_id")
    _change(
        session,
        ResponseRow.id == row.id,
        ResponseRow.status.in_(UNFINISHED),
        status="cancelled",
        owner=None,
        lease_expires_at=None,
        finished_at=time.time(),
    )
    session.refresh(row)


def remove(session: Session, ids: Sequence[str]) -> None:
    """Delete responses with their events; a run of one writes nothing any more."""
    session.execute(delete(ResponseRow).where(ResponseRow.id.in_(ids)))
    session.execute(delete(ResponseEventRow).where(ResponseEventRow.response_id.in_(ids)))


def view(row: ResponseRow) -> JsonObject:
    """A response as OpenAI's API shows it."""
    return {
        **head_of(row),
        "status": row.status,
        "error": row.error,
        "incomplete_details": None if row.incomplete is None else {"reason": row.incomplete},
        "output": row.output,
        "usage": row.usage if row.status not in UNFINISHED else None,
    }


def head_of(row: ResponseRow) -> JsonObject:
    """The fields of a response that do not change."""
    asked = row.request
    given = {name: asked[name] for name in _SHOWN if asked.get(name) is not None}
    return {
        **response_head(row.id, asked["model"], row.created_at),
        **given,
        "background": row.background,
        "previous_response_id": row.previous_id,
        "store": asked.get("store", True),
    }


_SHOWN = (
    *("instructions", "metadata", "max_output_tokens", "max_tool_calls", "temperature", "top_p"),
    *("tools", "tool_choice", "parallel_tool_calls", "text", "truncation"),
)


def server_error(message: str, code: str = "server_error") -> JsonObject:
    """The error of a response that failed."""
    return {"code": code, "message": message}


def _held(claimed: Claim) -> tuple[ColumnElement[bool], ...]:
    return (
        ResponseRow.id == claimed.id,
        ResponseRow.attempt == claimed.attempt,
        ResponseRow.status.in_(UNFINISHED),
    )


def _change(session: Session, *where: ColumnElement[bool], **values: Any) -> bool:
    changed = session.execute(
        update(ResponseRow)
        .where(*where)
        .values(**values)
        .returning(ResponseRow.id)
        .execution_options(synchronize_session=False)
    ).all()
    return bool(changed)


def _bytes(session: Session, identity: str, progress: Progress) -> int:
    query = select(ResponseRow.request, ResponseRow.input).where(ResponseRow.id == identity)
    asked = session.execute(query).one_or_none()
    events = select(func.coalesce(func.sum(func.length(ResponseEventRow.lines)), 0)).where(
        ResponseEventRow.response_id == identity
    )
    stored = [list(asked) if asked is not None else [], progress.output]
    return len(json.dumps(stored)) + int(session.execute(events).scalar_one())
