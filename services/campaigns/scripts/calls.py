"""LLM calls by data scripts: their tokens, and admission within the budget of their campaign.

A call reserves the most it may use, so that concurrent calls exceed the remaining budget by at most
one of them.
"""

import asyncio
import hashlib
import hmac
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from services.campaigns.run.budget import Budget
from services.campaigns.run.effects import tokens_used
from services.campaigns.run.signals import BudgetSpent
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.llms import CampaignLlm
from services.contracts.errors import AuthenticationFailed
from services.core.db.engine import Database
from services.core.db.tables import CampaignScriptRow
from services.jobs.campaign_records import (
    ScriptUsage,
    count_usage,
    refuse_script,
    scripts_usage,
)
from services.jobs.store import get_job

CALLS = "calls"
"""The limit that is not part of the budget."""


class CallRefused(Exception):
    """A limit is reached: no further call of the script is admitted, and the script is stopped."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


@dataclass
class _InProgress:
    """The calls of one campaign."""

    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class Asking:
    """A script that may call: its id, its campaign, and that campaign's calls."""

    script_id: str
    campaign_id: str
    request: CreateCampaign


class ScriptCalls:
    """The calls through one proxy. Belongs to one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._in_progress: defaultdict[str, _InProgress] = defaultdict(_InProgress)

    async def asking(self, script_id: str) -> Asking:
        """The caller; raises `AuthenticationFailed` unless it is a running script."""
        return await asyncio.to_thread(self._asking, script_id)

    @asynccontextmanager
    async def one(
        self, asking: Asking, llm: CampaignLlm, prompt: int, most: int
    ) -> AsyncIterator[None]:
        """Wait until a call with these estimated and maximum tokens is admitted, and count it.

        Raises `CallRefused`, which is recorded.
        """
        cost = llm.price.of(prompt, most) if llm.price else 0.0
        mine = self._in_progress[asking.campaign_id]
        async with mine.changed:
            while not await self._has_room(asking, mine, prompt + most, cost):
                await mine.changed.wait()
            await asyncio.to_thread(self._count, asking.script_id, ScriptUsage(calls=1))
            mine.calls += 1
            mine.tokens += prompt + most
            mine.cost += cost
        try:
            yield
        finally:
            async with mine.changed:
                mine.calls -= 1
                mine.tokens -= prompt + most
                mine.cost -= cost
                mine.changed.notify_all()

    async def used(self, asking: Asking, llm: CampaignLlm, prompt: int, completion: int) -> None:
        """Record the usage of a call."""
        cost = llm.price.of(prompt, completion) if llm.price else 0.0
        usage = ScriptUsage(0, prompt, completion, cost)
        await asyncio.to_thread(self._count, asking.script_id, usage)

    async def _has_room(self, asking: Asking, mine: _InProgress, tokens: int, cost: float) -> bool:
        budget = await asyncio.to_thread(self._budget, asking)
        try:
            budget.check_hours()
            budget.check_llm()
        except BudgetSpent as spent:
            await self._refuse(asking, spent.limit.value)
        llms = asking.request.script_llms
        if llms is None or budget.by_scripts.calls >= llms.calls:
            await self._refuse(asking, CALLS)
        if mine.calls == 0:
            return True
        tokens_left, cost_left = budget.left
        fits = mine.tokens + tokens <= tokens_left and mine.cost + cost <= cost_left
        return fits and mine.calls < llms.calls_at_once

    async def _refuse(self, asking: Asking, limit: str) -> NoReturn:
        await asyncio.to_thread(self._record_refusal, asking.script_id, limit)
        raise CallRefused(limit)

    def _asking(self, script_id: str) -> Asking:
        with self._database.read() as session:
            row = session.get(CampaignScriptRow, script_id)
            if row is None or row.ended_at is not None:
                raise AuthenticationFailed("this script has ended")
            if row.refusal is not None:
                raise CallRefused(row.refusal)
            job = get_job(session, row.campaign_id)
            if job.status.is_final or job.cancel_requested_at is not None:
                raise AuthenticationFailed("the campaign of this script has ended")
            return Asking(script_id, job.id, CreateCampaign.model_validate(job.request))

    def _budget(self, asking: Asking) -> Budget:
        with self._database.read() as session:
            started_at = get_job(session, asking.campaign_id).started_at
            used = tokens_used(session, asking.campaign_id)
            return Budget(
                asking.request, started_at, used, scripts_usage(session, asking.campaign_id)
            )

    def _count(self, script_id: str, usage: ScriptUsage) -> None:
        with self._database.write() as session:
            count_usage(session, script_id, usage)

    def _record_refusal(self, script_id: str, limit: str) -> None:
        with self._database.write() as session:
            refuse_script(session, script_id, limit)


def script_token(settings: CampaignSettings, script_id: str) -> str:
    """The token that identifies a script to the proxy; it is worthless anywhere else.

    It is derived from the script's id and the worker's key for scripts, so that any worker
    recognizes it, also after a restart.
    """
    return f"{script_id}.{_mark(settings, script_id)}"


def script_of(settings: CampaignSettings, token: str) -> str | None:
    """The id of the script with this token; None for an unknown token."""
    script_id, _, mark = token.partition(".")
    expected = _mark(settings, script_id).encode()
    return script_id if hmac.compare_digest(mark.encode(), expected) else None


def _mark(settings: CampaignSettings, script_id: str) -> str:
    key = settings.campaign_script_key
    secret = key.get_secret_value().encode() if key is not None else b""
    message = f"llm-proxy/{script_id}".encode()
    return hmac.new(secret, message, hashlib.sha256).hexdigest()
