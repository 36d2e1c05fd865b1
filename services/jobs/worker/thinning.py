"""Bounds the events of a job without ever losing the latest: older metrics make room for new ones.

Readers take the last metrics events for a job's state: those of its checkpoints, of lists and of
alerts. So new metrics are always stored. From `MAX_EVENTS` events on, while half as many further
ones come, a sweep passes once over all earlier ones and removes metrics by chance, so that about
`MAX_EVENTS` of them stay: half of these are the latest, the others are spread evenly over all
earlier ones. The work of a sweep is shared by the reports, so that no transaction is long.
reports.jsonl has all of them.
"""

import secrets
from collections.abc import Iterator

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from services.core.db.tables import EventRow
from services.jobs.events import Draft

MAX_EVENTS = 100_000
"""Number of events from which metrics are thinned."""
MAX_OTHERS = 10_000
"""So many further events are stored of a child's other reports, at least. The job machine's own
events always are."""
LATEST_KEPT = 100
"""So many of a job's latest metrics are never removed."""


def bounded(session: Session, job_id: str, drafts: list[Draft], recorded: int) -> list[Draft]:
    """The reports that become events of a job with ``recorded`` ones; older metrics make room."""
    if recorded + len(drafts) < MAX_EVENTS:
        return drafts
    if any(draft.type != "metrics" for draft in drafts):
        drafts = _without_excess(session, job_id, drafts)
    for sweep, first, end in _sweeps(recorded, recorded + len(drafts)):
        _thin(session, job_id, sweep, first, end)
    return drafts


def _without_excess(session: Session, job_id: str, drafts: list[Draft]) -> list[Draft]:
    """The drafts without those that are no metrics and find no room; the last that does says so."""
    stored = session.scalar(
        select(func.count()).select_from(EventRow).where(EventRow.job_id == job_id)
    )
    room = MAX_EVENTS + MAX_OTHERS - (stored or 0)
    kept: list[Draft] = []
    for draft in drafts:
        if draft.type == "metrics" or room > 1:
            kept.append(draft)
        elif room == 1:
            note = "The job has very many events; further reports are in its reports.jsonl only"
            kept.append(Draft(note, level="warn"))
        room -= draft.type != "metrics"
    return kept


def _sweeps(recorded: int, ahead: int) -> Iterator[tuple[int, int, int]]:
    """The sweeps that take place while events are added up to ``ahead``, each with the first
    event number that it passes meanwhile and the one behind the last.

    While the number of events grows from ``sweep * half`` by ``half``, a sweep passes from 0 to
    ``sweep * half``.
    """
    half = MAX_EVENTS // 2
    at = max(recorded, 2 * half)
    while at < ahead:
        sweep = at // half
        until = min(ahead, (sweep + 1) * half)
        yield sweep, (at - sweep * half) * sweep, (until - sweep * half) * sweep
        at = until


def _thin(session: Session, job_id: str, sweep: int, first: int, end: int) -> None:
    """Remove what a sweep does of the metrics numbered from ``first`` to below ``end``."""
    metrics = EventRow.job_id == job_id, EventRow.type == "metrics"
    latest = select(EventRow.number).where(*metrics).order_by(EventRow.number.desc())
    oldest_kept = session.scalar(latest.offset(LATEST_KEPT - 1).limit(1))
    passed = EventRow.number >= first, EventRow.number < min(end, oldest_kept or 0)
    numbers = session.scalars(select(EventRow.number).where(*metrics, *passed))
    removed = [number for number in numbers if not _stays(number, sweep)]
    if removed:
        session.execute(
            delete(EventRow)
            .where(EventRow.job_id == job_id, EventRow.number.in_(removed))
            .execution_options(synchronize_session=False)
        )


def _stays(number: int, sweep: int) -> bool:
    """Whether a sweep keeps a metrics event; afterwards one of ``sweep`` has stayed on average.

    Earlier sweeps left one of ``sweep - 1`` of those below ``(sweep - 1) * half``, and did not
    pass the others. Chance, unlike a pattern, treats alike metrics of two kinds that alternate.
    """
    was_passed = number < (sweep - 1) * (MAX_EVENTS // 2) and sweep > 2
    chosen = secrets.randbelow(sweep) == 0
    return not chosen if was_passed else chosen
