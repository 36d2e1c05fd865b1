"""The budget of a campaign: its usage so far, and the limit that ends it."""

import math
import threading
import time
from collections.abc import Callable, Mapping

from services.campaigns.run.signals import BudgetSpent
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.llms import LlmRole
from services.inference.chat_answers import TokenUsage
from services.jobs.campaign_records import ScriptUsage

HOUR_SECONDS = 3600.0


class Budget:
    """The limits and the usage of a campaign whose first step started at ``started_at``.

    ``by_scripts`` is the LLM usage of its data scripts. ``now`` is the clock that ``started_at``
    was read from.
    """

    def __init__(
        self,
        request: CreateCampaign,
        started_at: float | None,
        used: Mapping[LlmRole, TokenUsage],
        by_scripts: ScriptUsage,
    ) -> None:
        self.now: Callable[[], float] = time.time
        self._limits = request.budget
        self._prices = {role: request.llm_for(role).price for role in LlmRole}
        self._started_at = started_at
        self._is_priced = all(llm.price is not None for llm in request.llms)
        self._used = dict(used)
        self._lock = threading.Lock()
        self.by_scripts = by_scripts

    def add(self, role: LlmRole, prompt_tokens: int, completion_tokens: int) -> None:
        """Count the tokens of a call of the LLM."""
        with self._lock:
            used = self._used.get(role, TokenUsage(0, 0))
            total = TokenUsage(used.prompt + prompt_tokens, used.completion + completion_tokens)
            self._used[role] = total

    @property
    def tokens(self) -> int:
        """Total LLM tokens."""
        asked = sum(used.prompt + used.completion for used in list(self._used.values()))
        return asked + self.by_scripts.tokens

    @property
    def cost(self) -> float | None:
        """The cost of these tokens at the price of each LLM; None where one has no price."""
        if not self._is_priced:
            return None
        cost = self.by_scripts.cost
        for role, price in self._prices.items():
            used = self._used.get(role, TokenUsage(0, 0))
            cost += price.of(used.prompt, used.completion) if price else 0.0
        return cost

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time budget ends, at least 0; None without a limit."""
        if self._limits.hours is None or self._started_at is None:
            return None
        return max(0.0, self._started_at + self._limits.hours * HOUR_SECONDS - self.now())

    @property
    def left(self) -> tuple[float, float]:
        """Remaining tokens and cost, infinite without a limit."""
        tokens, cost = self._limits.llm_tokens, self._limits.cost
        return (
            math.inf if tokens is None else tokens - self.tokens,
            math.inf if cost is None or self.cost is None else cost - self.cost,
        )

    @property
    def bounds_gpu_hours(self) -> bool:
        """Whether `check_gpu_hours` has a limit to check."""
        return self._limits.gpu_hours is not None

    @property
    def bounds_llm(self) -> bool:
        """Whether `check_llm` has a limit to check."""
        return self._limits.llm_tokens is not None or self._limits.cost is not None

    def check_steps(self, before: int) -> None:
        """Raise `BudgetSpent` when no step may follow the ``before`` steps of loops."""
        if self._limits.steps is not None and before >= self._limits.steps:
            raise BudgetSpent(Limit.STEPS)

    def check_hours(self) -> None:
        """Raise `BudgetSpent` when the time budget is exhausted."""
        if self.seconds_left == 0.0:
            raise BudgetSpent(Limit.HOURS)

    def check_gpu_hours(self, seconds: float) -> None:
        """Raise `BudgetSpent` when jobs have used ``seconds`` of GPU time and none is left."""
        limit = self._limits.gpu_hours
        if limit is not None and seconds >= limit * HOUR_SECONDS:
            raise BudgetSpent(Limit.GPU_HOURS)

    def check_llm(self) -> None:
        """Raise `BudgetSpent` when no further LLM call is allowed."""
        if self._limits.llm_tokens is not None and self.tokens >= self._limits.llm_tokens:
            raise BudgetSpent(Limit.LLM_TOKENS)
        limit, cost = self._limits.cost, self.cost
        if limit is not None and cost is not None and cost >= limit:
            raise BudgetSpent(Limit.COST)
