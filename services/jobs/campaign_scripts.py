"""LLM usage of campaign data scripts."""

import time
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from services.core.db.tables import CampaignScriptRow


@dataclass(frozen=True)
class ScriptUsage:
    """Calls of LLMs with their tokens and cost."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.prompt_tokens + self.completion_tokens


def scripts_usage(session: Session, campaign_id: str) -> ScriptUsage:
    """Total usage of all scripts of a campaign."""
    row = CampaignScriptRow
    query = select(
        func.sum(row.calls),
        func.sum(row.prompt_tokens),
        func.sum(row.completion_tokens),
        func.sum(row.cost),
    ).where(row.campaign_id == campaign_id)
    calls, prompt, completion, cost = session.execute(query).one()
    return ScriptUsage(int(calls or 0), int(prompt or 0), int(completion or 0), cost or 0.0)


def open_script(session: Session, script_id: str, campaign_id: str) -> None:
    """Grant a script access to LLMs, before it starts."""
    if session.get(CampaignScriptRow, script_id) is None:
        session.add(
            CampaignScriptRow(id=script_id, campaign_id=campaign_id, started_at=time.time())
        )


def close_script(session: Session, script_id: str) -> None:
    """Revoke a script's access to LLMs."""
    session.execute(
        update(CampaignScriptRow)
        .where(CampaignScriptRow.id == script_id, CampaignScriptRow.ended_at.is_(None))
        .values(ended_at=time.time())
    )


def count_usage(session: Session, script_id: str, used: ScriptUsage) -> None:
    """Add to what a script has used."""
    row = CampaignScriptRow
    session.execute(
        update(row)
        .where(row.id == script_id)
        .values(
            calls=row.calls + used.calls,
            prompt_tokens=row.prompt_tokens + used.prompt_tokens,
            completion_tokens=row.completion_tokens + used.completion_tokens,
            cost=row.cost + used.cost,
        )
    )


def refuse_script(session: Session, script_id: str, limit: str) -> None:
    """Record the first limit at which a script was refused an answer."""
    session.execute(
        update(CampaignScriptRow)
        .where(CampaignScriptRow.id == script_id, CampaignScriptRow.refusal.is_(None))
        .values(refusal=limit)
    )


def refusal_of(session: Session, script_id: str) -> str | None:
    """The limit at which a script was refused an answer, if it was."""
    row = session.get(CampaignScriptRow, script_id)
    return None if row is None else row.refusal
