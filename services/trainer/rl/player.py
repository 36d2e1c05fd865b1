"""Plays groups of samples in the background, as many as the schedule lets begin."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from services.contracts.errors import JobFailed
from services.contracts.trajectories import Trajectory
from services.trainer.rl.draws import Draw, Draws
from services.trainer.rl.groups import Group
from services.trainer.rl.schedule import Schedule
from services.trainer.rl.sources.source import Source

FAILED_IN_A_ROW = 64
"""So many groups, one after the other, of which no sample succeeded end the job."""


@dataclass(frozen=True)
class GroupRules:
    """What makes a group: ``samples`` of a prompt, at least ``usable`` of them good.

    ``rewarded``: a good one has a reward. ``filtered``: a group whose rewards are all alike is
    dropped.
    """

    samples: int
    usable: int = 1
    rewarded: bool = True
    filtered: bool = False


@dataclass
class Played:
    """What was played since it was last asked for; ``seconds`` with at least one sample in play."""

    samples: list[Trajectory] = field(default_factory=list)
    groups: int = 0
    filtered: int = 0
    failed: int = 0
    seconds: float = 0.0


class Player:
    """Plays groups of samples; `batch` waits for those of the next update.

    ``keep`` is called with each sample when it has been played. `run` must run beside whoever
    waits; what it raises ends the job.
    """

    def __init__(
        self,
        draws: Draws,
        source: Source,
        schedule: Schedule,
        rules: GroupRules,
        max_concurrency: int,
        keep: Callable[[Trajectory], None],
    ) -> None:
        self._draws = draws
        self._source = source
        self._schedule = schedule
        self._rules = rules
        self._places = asyncio.Semaphore(max_concurrency)
        self._keep = keep
        self._groups: dict[int, Group] = {}
        self._changed = asyncio.Condition()
        self._failed_in_a_row = 0
        self._in_play = 0
        self._busy_since = 0.0
        self._played = Played()

    @property
    def groups(self) -> list[Group]:
        """The groups that are being played or wait to be trained on, in the order of drawing."""
        return [self._groups[number] for number in sorted(self._groups)]

    @property
    def in_play(self) -> int:
        """Samples that are being played."""
        return self._in_play

    async def run(self, restored: Iterable[Group] = ()) -> None:
        """Play for ever; first what ``restored`` groups still miss."""
        async with asyncio.TaskGroup() as tasks:
            for group in restored:
                self._begin(group)
                tasks.create_task(self._play(group))
            while True:
                while self._schedule.room:
                    tasks.create_task(self._play(self._draw()))
                async with self._changed:
                    await self._changed.wait_for(lambda: self._schedule.room)

    async def batch(self) -> list[Group]:
        """Wait for the groups of the next update and take them. Fewer than usual, or none, only
        when too many were dropped for being alike."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._schedule.ready() is not None)
            numbers = self._schedule.ready() or []
            self._schedule.take(numbers)
            self._changed.notify_all()
        return [self._groups.pop(number) for number in numbers]

    async def advance(self) -> None:
        """The engine samples with the next version of the policy."""
        await self._tell(self._schedule.advance)

    async def stay(self) -> None:
        """There was nothing to learn from; the version stays."""
        await self._tell(self._schedule.stay)

    def played(self) -> Played:
        """What was played since the last call."""
        self._count_time()
        played, self._played = self._played, Played()
        return played

    async def _tell(self, change: Callable[[], None]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()

    def _draw(self) -> Group:
        draw = self._draws.next()
        group = Group(
            number=draw.number,
            prompt=draw.prompt,
            size=self._rules.samples,
            started=self._schedule.version,
            rewarded=self._rules.rewarded,
        )
        self._begin(group)
        return group

    def _begin(self, group: Group) -> None:
        self._groups[group.number] = group
        self._schedule.begin(group.number, group.started)

    async def _play(self, group: Group) -> None:
        draw = self._draws.at(group.number)
        async with asyncio.TaskGroup() as tasks:
            for index in group.missing:
                tasks.create_task(self._sample(group, draw, index))
        await self._tell(lambda: self._end(group))

    async def _sample(self, group: Group, draw: Draw, index: int) -> None:
        async with self._places:
            with self._counted():
                trajectory = await self._source.sample(draw, index)
        # Without a pause between them: a checkpoint finds the sample in both or in neither.
        self._keep(trajectory)
        group.samples[index] = trajectory
        self._played.samples.append(trajectory)

    def _end(self, group: Group) -> None:
        self._played.groups += 1
        if len(group.usable) < self._rules.usable:
            self._fail(group)
        elif self._rules.filtered and not group.has_signal:
            self._failed_in_a_row = 0
            self._played.filtered += 1
            self._drop(group)
        else:
            self._failed_in_a_row = 0
            self._schedule.finish(group.number)

    def _fail(self, group: Group) -> None:
        self._played.failed += 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= FAILED_IN_A_ROW:
            raise JobFailed(
                f"{FAILED_IN_A_ROW} prompts in a row could not be played; "
                f"the last: {group.failure or 'too few samples'}",
                code="rollouts_failed",
            )
        self._drop(group)

    def _drop(self, group: Group) -> None:
        del self._groups[group.number]
        self._schedule.drop(group.number)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._count_time()
        self._in_play += 1
        try:
            yield
        finally:
            self._count_time()
            self._in_play -= 1

    def _count_time(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._in_play:
            self._played.seconds += now - self._busy_since
        self._busy_since = now
