"""The budget of a campaign: what it has used, and the limit that ends it."""

import time
from collections.abc import Callable

from services.campaigns.signals import BudgetSpent
from services.contracts.campaigns import CampaignBudget, Limit

HOUR_SECONDS = 3600.0


class Budget:
    """The limits of a campaign that took its first step at ``started_at``, and used ``tokens``.

    ``now`` is the clock that ``started_at`` was read from.
    """

    def __init__(self, limits: CampaignBudget, started_at: float | None, tokens: int) -> None:
        self.tokens = tokens
        self.now: Callable[[], float] = time.time
        self._limits = limits
        self._started_at = started_at

    @property
    def seconds_left(self) -> float | None:
        """The time until the hours end, at least 0; None without such a limit."""
        if self._limits.hours is None or self._started_at is None:
            return None
        return max(0.0, self._started_at + self._limits.hours * HOUR_SECONDS - self.now())

    def check_hours(self) -> None:
        """Raise `BudgetSpent` when the hours have passed."""
        if self.seconds_left == 0.0:
            raise BudgetSpent(Limit.HOURS)

    def check_tokens(self) -> None:
        """Raise `BudgetSpent` when no further call of the LLM may be made."""
        if self._limits.llm_tokens is not None and self.tokens >= self._limits.llm_tokens:
            raise BudgetSpent(Limit.LLM_TOKENS)
