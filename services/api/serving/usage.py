"""The usage of each key: requests and tokens by day and model, stored in the database."""

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Self

from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from services.api.serving.metering import TokenUsage
from services.contracts.serving import Usage, UsageOfDay
from services.core.db.engine import Database
from services.core.db.tables import UsageRow

logger = logging.getLogger(__name__)

WRITE_SECONDS = 5.0
"""A gateway that is killed loses the counts of this period."""
RETENTION_DAYS = 400

_UsageKey = tuple[str, str, str]


class UsageLog:
    """Counts responses and writes the counts every few seconds. Use as an async context manager."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests: Counter[_UsageKey] = Counter()
        self._prompt_tokens: Counter[_UsageKey] = Counter()
        self._completion_tokens: Counter[_UsageKey] = Counter()
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._writing = asyncio.create_task(self._write_until_stopped())
        return self

    async def __aexit__(self, *_: object) -> None:
        # Not cancelled: that would leave a running transaction behind and count its rows again.
        self._stopping.set()
        await self._writing

    def count(self, principal: str, model: str, usage: TokenUsage) -> None:
        """Count one response."""
        key = (datetime.now(UTC).date().isoformat(), principal, model)
        self._requests[key] += 1
        self._prompt_tokens[key] += usage.prompt_tokens
        self._completion_tokens[key] += usage.completion_tokens

    async def _write_until_stopped(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), WRITE_SECONDS)
            await self._write()

    async def _write(self) -> None:
        """Write the counts; counts that cannot be written are retried next time."""
        counted = {
            key: (requests, self._prompt_tokens[key], self._completion_tokens[key])
            for key, requests in self._requests.items()
        }
        if not counted:
            return
        try:
            await run_in_threadpool(_add, self._database, counted)
        except SQLAlchemyError as error:
            logger.warning("the usage of keys is not written yet: %s", error)
            return
        for key, (requests, prompt, completion) in counted.items():
            self._requests -= Counter({key: requests})
            self._prompt_tokens -= Counter({key: prompt})
            self._completion_tokens -= Counter({key: completion})


def usage_of(session: Session, principal: str, days: int) -> Usage:
    """The usage of a key in the last ``days``, including today; newest day first."""
    query = (
        select(UsageRow)
        .where(UsageRow.principal == principal, UsageRow.day > _days_ago(days))
        .order_by(UsageRow.day.desc(), UsageRow.model)
    )
    return Usage(
        data=[
            UsageOfDay(
                day=date.fromisoformat(row.day),
                model=row.model,
                requests=row.requests,
                prompt_tokens=row.prompt_tokens,
                completion_tokens=row.completion_tokens,
            )
            for row in session.scalars(query)
        ]
    )


def _add(database: Database, counted: dict[_UsageKey, tuple[int, int, int]]) -> None:
    with database.write() as session:
        for (day, principal, model), (requests, prompt, completion) in counted.items():
            changed = session.execute(
                update(UsageRow)
                .where(
                    UsageRow.day == day, UsageRow.principal == principal, UsageRow.model == model
                )
                .values(
                    requests=UsageRow.requests + requests,
                    prompt_tokens=UsageRow.prompt_tokens + prompt,
                    completion_tokens=UsageRow.completion_tokens + completion,
                )
                .returning(UsageRow.day)
            ).all()
            if not changed:
                session.add(
                    UsageRow(
                        day=day,
                        principal=principal,
                        model=model,
                        requests=requests,
                        prompt_tokens=prompt,
                        completion_tokens=completion,
                    )
                )
        session.execute(delete(UsageRow).where(UsageRow.day <= _days_ago(RETENTION_DAYS)))


def _days_ago(days: int) -> str:
    return (datetime.now(UTC).date() - timedelta(days=days)).isoformat()
