"""Whether a training drafts: decided by its own rollouts, in its first minutes.

    sample a minute without drafts, and replay which of them would have been accepted
    -> start the engine with drafts, if that can save more time than it takes
    -> sample a minute without and with drafts, in turns of some seconds
    -> go on with what is faster

An engine that never drafts stays as fast as it is: with drafts vLLM gives up some of its own
overlap. Hence the replay comes first, which needs no drafts at all.

The replay is of vLLM's n-gram drafter over finished responses. A draft depends on the tokens before
it alone, and a drafted token is accepted with the model's own probability of it, which is that of
having sampled it. So the tokens of a response, sampled without drafts, say which drafts would have
been accepted in an engine that made them.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from services.contracts.engine import Drafts
from services.contracts.rollouts.trajectories import Trajectory
from services.core.process.reporter import Reporter
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.counters import EngineCounters


@dataclass
class Replay:
    """Sampled tokens, and the forward passes of their sequences that would have given them."""

    tokens: int = 0
    passes: int = 0

    @property
    def accepted_length(self) -> float:
        """Tokens of a sequence per forward pass; 1 if no draft is accepted."""
        return self.tokens / self.passes if self.passes else 1.0

    def add(
        self, drafts: Drafts, prompt: Sequence[int], response: Sequence[int], mask: Sequence[bool]
    ) -> None:
        """Replay the tokens of a response that the model sampled, those of ``mask``; the others
        are read."""
        known, draft, is_open = Lookup(drafts, prompt), list[int](), False
        for token, sampled in zip(response, mask, strict=True):
            if not sampled:
                is_open = False
            else:
                if not is_open:
                    draft, is_open = known.draft(), True
                    self.passes += 1
                self.tokens += 1
                is_open = bool(draft) and draft.pop(0) == token
            known.append(token)


class Lookup:
    """Drafts what followed the first of the earlier occurrences of the last tokens, of the longest
    match, as ``vllm.v1.spec_decode.ngram_proposer`` of vLLM 0.32 does."""

    def __init__(self, drafts: Drafts, prompt: Sequence[int]) -> None:
        self._count = drafts.tokens
        least, most = drafts.matches
        self._lengths = range(most, least - 1, -1)
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        for token in prompt:
            self.append(token)

    def append(self, token: int) -> None:
        """Read a token."""
        end = len(self._tokens)
        for length in self._lengths:
            if length <= end:
                self._ends.setdefault(tuple(self._tokens[end - length :]), end)
        self._tokens.append(token)

    def draft(self) -> list[int]:
        """The tokens that would be drafted now; none without a match."""
        for length in self._lengths:
            end = self._ends.get(tuple(self._tokens[-length:]))
            if end is not None and length <= len(self._tokens):
                return self._tokens[end : end + self._count]
        return []


MINUTE = 60.0
"""Seconds of sampling before the first decision."""
REPLAYED = 100_000
"""Sampled tokens that are replayed at most: half a second of computing."""
LEAST_LENGTH = 1.2
"""Tokens per forward pass below which drafts cannot pay for their verification."""
RESTARTS = 4.0
"""Startups of the engine that drafts must be able to save: two may be needed."""
WINDOW = 5.0
"""Seconds of sampling in one turn."""
TURNS = (False, True, True, False) * 3
"""Whether each turn drafts; in this order, what gets faster or slower favors neither."""
PAYS = 1.05
"""How many times faster drafts must be."""
POLL = 0.25


class DraftingEngine(Protocol):
    """An engine that can draft."""

    @property
    def sampling_seconds(self) -> float:
        """Seconds so far in which it sampled for a rollout."""
        ...

    @property
    def startup_seconds(self) -> float:
        """How long it took to start."""
        ...

    async def speculate(self, drafts: Drafts | None) -> str | None:
        """Restart it with drafts, or without; see `PolicyEngine.speculate`."""
        ...

    async def draft(self, *, on: bool) -> None:
        """Draft from now on, or not."""
        ...

    async def counters(self) -> EngineCounters:
        """What it has generated since its start."""
        ...


class _Stage(StrEnum):
    REPLAYING = "replaying"
    COMPARING = "comparing"
    DECIDED = "decided"


@dataclass
class _Pace:
    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


class Speculation:
    """The drafts of a training, and their metrics. ``drafts`` are those that its engine was started
    with; with None and ``is_open`` it decides by itself."""

    def __init__(
        self,
        engine: DraftingEngine,
        reporter: Reporter,
        *,
        drafts: Drafts | None,
        is_open: bool,
    ) -> None:
        self._engine = engine
        self._reporter = reporter
        self._drafts = drafts or Drafts()
        self._is_on = drafts is not None
        self._stage = _Stage.REPLAYING if is_open and drafts is None else _Stage.DECIDED
        self._replay = Replay()
        self._steps = 0
        self._comparison: asyncio.Task[float] | None = None
        self._counted = EngineCounters()
        self._speedup: float | None = None

    def observe(self, trajectory: Trajectory) -> None:
        """Replay drafts over what the policy sampled of a finished rollout."""
        if self._stage is _Stage.REPLAYING and self._replay.tokens < REPLAYED:
            self._replay.add(
                self._drafts,
                trajectory.prompt_token_ids,
                trajectory.response_token_ids,
                trajectory.policy_mask,
            )

    async def after_step(self, steps_left: int) -> None:
        """Decide, where it is time to. Raises `VllmFailed` or `EngineFailed` if the engine starts
        no more."""
        self._steps += 1
        if self._stage is _Stage.REPLAYING:
            if self._engine.sampling_seconds >= MINUTE:
                await self._begin(steps_left)
        elif self._comparison is not None and self._comparison.done():
            await self._end(self._comparison)

    async def metrics(self) -> dict[str, float]:
        """Since the last call: tokens per forward pass, and the share of drafted tokens that were
        accepted; the speedup once, when it was measured. Nothing without drafts."""
        found: dict[str, float] = {}
        if self._speedup is not None:
            found["draft_speedup"], self._speedup = self._speedup, None
        if not self._is_on:
            return found
        with suppress(EngineFailed):  # another process takes its place, and counts from 0
            counted = await self._engine.counters()
            new, self._counted = counted.since(self._counted), counted
            if new.generated:
                found["accepted_length"] = new.accepted_length
                found["draft_acceptance_rate"] = new.acceptance_rate
        return found

    async def close(self) -> None:
        """End a comparison."""
        if self._comparison is not None:
            self._comparison.cancel()
            await asyncio.wait([self._comparison])

    async def _begin(self, steps_left: int) -> None:
        """Start the engine with drafts, if they can save enough."""
        length = self._replay.accepted_length
        sampling = self._engine.sampling_seconds / self._steps * steps_left
        saved = sampling * (1.0 - 1.0 / length)
        told = f"Drafts would give {length:.2f} tokens per forward pass"
        self._stage = _Stage.DECIDED
        if length < LEAST_LENGTH:
            self._say(f"{told}: too few, so the engine does not draft")
            return
        if saved < RESTARTS * self._engine.startup_seconds:
            self._say(f"{told}, and save {saved:.0f} s at most: the engine is not restarted")
            return
        failure = await self._engine.speculate(self._drafts)
        if failure is not None:
            self._say(f"The engine does not start with drafts, and goes on without: {failure}")
            return
        self._say(f"{told}: they are compared with sampling without them")
        self._stage, self._is_on = _Stage.COMPARING, True
        self._counted = EngineCounters()
        self._comparison = asyncio.create_task(self._compare())

    async def _compare(self) -> float:
        """How many times faster drafts are; raises `EngineFailed`."""
        paces = {False: _Pace(), True: _Pace()}
        for drafts in TURNS:
            await self._engine.draft(on=drafts)
            began, before = self._engine.sampling_seconds, await self._engine.counters()
            while self._engine.sampling_seconds - began < WINDOW:  # noqa: ASYNC110 - seconds pass without events
                await asyncio.sleep(POLL)
            counted = (await self._engine.counters()).since(before)
            paces[drafts].tokens += counted.generated
            paces[drafts].seconds += self._engine.sampling_seconds - began
        await self._engine.draft(on=True)
        without, with_drafts = paces[False].rate, paces[True].rate
        return with_drafts / without if without else 1.0

    async def _end(self, comparison: "asyncio.Task[float]") -> None:
        """Go on with what was faster."""
        self._stage, self._comparison = _Stage.DECIDED, None
        try:
            speedup = comparison.result()
        except EngineFailed as error:
            speedup = 1.0
            why = f"the comparison failed: {error.message}"
        else:
            self._speedup = speedup
            why = f"with drafts it samples {speedup:.2f} times as fast"
        if speedup >= PAYS:
            self._say(f"The engine goes on with drafts: {why}", speedup=round(speedup, 3))
            return
        self._is_on = False
        await self._engine.speculate(None)
        self._say(f"The engine goes on without drafts: {why}", speedup=round(speedup, 3))

    def _say(self, text: str, **data: float) -> None:
        self._reporter.message(text, "info", **data)
