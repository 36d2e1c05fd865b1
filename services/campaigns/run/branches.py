"""Runs loops concurrently, each in a thread of its own until it must wait.

A campaign waits when all its loops do. The open loops and their progress follow from the steps in
the database, so another worker resumes the same ones.
"""

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, Interrupted, OutOfTurn, Waiting
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import StepName

TICK_SECONDS = 0.2
LOOK_SECONDS = 1.0
"""Interval at which the jobs of waiting loops are checked while others run."""

TakeLoop = Callable[[CampaignRun, int], Limit | None]
"""Runs all steps of a loop; returns the budget limit reached at its end."""


def take_loops(run: CampaignRun, take: TakeLoop) -> Limit:
    """Run loops, several concurrently, until a budget limit is reached, and return that limit.

    Raises what a loop raises, and `Waiting` once no loop can proceed.
    """
    with ThreadPoolExecutor(run.request.branches) as threads:
        return _Branches(run, take, threads).run()


class _Branches:
    """The open loops: running ones, and resting ones with the reason for their wait."""

    def __init__(self, run: CampaignRun, take: TakeLoop, threads: ThreadPoolExecutor) -> None:
        self._run = run
        self._take = take
        self._threads = threads
        self._running: dict[Future[Limit | None], int] = {}
        self._resting: dict[int, Waiting] = {}
        self._looked = time.monotonic()
        self._ended_by: Limit | None = None
        self._interrupted: Interrupted | None = None
        self._failure: BaseException | None = None

    def run(self) -> Limit:
        """Run every loop that can proceed; return the limit that ended them."""
        for loop in self._run.steps.open_loops():
            self._start(loop)
        self._begin_next()
        while self._running:
            done, _ = wait(self._running, TICK_SECONDS, FIRST_COMPLETED)
            for future in done:
                self._settle(self._running.pop(future), future)
            if self._failure is None and self._interrupted is None:
                self._wake()
                self._begin_next()
        return self._end()

    def _start(self, loop: int) -> None:
        self._running[self._threads.submit(self._take, self._run.branch(), loop)] = loop

    def _begin_next(self) -> None:
        """Start the next loop, in order: its proposal sees those of the loops before it."""
        steps, loop = self._run.steps, self._run.steps.newest_loop + 1
        is_open = {*self._running.values(), *self._resting}
        if (
            self._ended_by is None
            and loop <= self._run.request.budget.loops
            and len(is_open) < self._run.request.branches
            and loop not in is_open
            and not steps.is_in_progress(StepName.PROPOSAL)
        ):
            try:
                self._run.budget.check_llm()
            except BudgetSpent as spent:
                self._ended_by = spent.limit
            else:
                self._start(loop)

    def _wake(self) -> None:
        """Resume loops whose wait is over."""
        looks = time.monotonic() - self._looked >= LOOK_SECONDS
        if looks:
            self._looked = time.monotonic()
        for loop, waiting in list(self._resting.items()):
            if isinstance(waiting, OutOfTurn):
                ready = self._run.steps.changes != waiting.changes
            else:
                jobs = waiting.jobs  # of none: it waits for a time, as for a script
                ready = looks and (not jobs or any(map(self._run.has_ended, jobs)))
            if ready:
                del self._resting[loop]
                self._start(loop)

    def _settle(self, loop: int, future: Future[Limit | None]) -> None:
        try:
            limit = future.result()
            self._ended_by = self._ended_by or limit
        except Waiting as waiting:
            self._resting[loop] = waiting
        except BudgetSpent as spent:
            # The others go on as far as the budget lets them.
            self._ended_by = self._ended_by or spent.limit
        except Interrupted as interrupted:
            self._interrupted = self._interrupted or interrupted
        except BaseException as failure:
            self._failure = self._failure or failure
            self._run.control.abandon()

    def _end(self) -> Limit:
        if self._failure is not None:
            raise self._failure
        if self._interrupted is not None:
            raise self._interrupted
        waits = [each for each in self._resting.values() if not isinstance(each, OutOfTurn)]
        if waits:
            reasons = "; ".join(dict.fromkeys(each.reason for each in waits))
            timed = any(not each.jobs for each in waits)  # to look again before a job has ended
            raise Waiting(reasons, *(() if timed else (job for each in waits for job in each.jobs)))
        return self._ended_by or Limit.LOOPS
