"""Which groups may start (`StalenessScheduler`), and rolling them out (`RolloutScheduler`).

A group that starts under policy version v must be trained on at version v + ``max_staleness`` at
the latest: its deadline. A slow group is never dropped; the update that would make it too old waits
for it. The number of groups in flight is bounded so that this wait always ends with a full batch.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from services.contracts.errors import JobFailed
from services.contracts.rollouts.trajectories import Trajectory
from services.contracts.training.online import ReinforcementMethod
from services.trainer.rl.curriculum import CurriculumOrder
from services.trainer.rl.groups import Group, GroupConfig, TrajectorySource
from services.trainer.rl.prompts import PromptSampler, SampledPrompt
from services.trainer.rl.spec import Online, PassThreshold


@dataclass
class _Slot:
    deadline: int  # the last version at which it may be trained on
    finished: int | None = None  # its rank in the order of finishing


class StalenessScheduler:
    """Tracks groups by number; knows nothing of time or tokens.

    A batch has ``size`` groups; ``batches`` are still to be trained (None: unbounded).
    ``replacements`` bounds how many groups may be dropped for one batch (None: unbounded).
    """

    def __init__(
        self,
        size: int,
        max_staleness: int,
        version: int = 0,
        *,
        batches: int | None = None,
        replacements: int | None = None,
    ) -> None:
        self._size = size
        self._staleness = max_staleness
        self._batches = batches
        self._replacements = replacements
        self._version = version
        self._slots: dict[int, _Slot] = {}
        self._ranks = 0
        self._dropped = 0
        self._taken = False

    @property
    def version(self) -> int:
        """The policy version under which groups start now."""
        return self._version

    @property
    def free_slots(self) -> int:
        """How many groups may start now."""
        if self._exhausted:
            return 0
        batches = self._staleness if self._taken else self._staleness + 1
        if self._batches is not None:
            batches = min(batches, self._batches)
        return max(0, batches * self._size - len(self._slots))

    @property
    def _exhausted(self) -> bool:
        """Whether too many groups were dropped: the batch then takes what is left."""
        return self._replacements is not None and self._dropped > self._replacements

    def begin(self, number: int, version: int | None = None) -> None:
        """Start a group; under an earlier ``version`` if it started before a restart."""
        started = self._version if version is None else version
        self._slots[number] = _Slot(started + self._staleness)

    def finish(self, number: int) -> None:
        """Mark a group as ready to train on."""
        self._slots[number].finished = self._ranks
        self._ranks += 1

    def drop(self, number: int) -> None:
        """Discard an unusable group; another may start in its place."""
        del self._slots[number]
        self._dropped += 1

    def ready(self) -> list[int] | None:
        """The groups of the next batch, earliest deadline first; None while it has to wait. Fewer
        than a batch, or none, only if too many were dropped."""
        finished = sorted(
            (place.deadline, place.finished, number)
            for number, place in self._slots.items()
            if place.finished is not None
        )
        chosen = [number for _, _, number in finished[: self._size]]
        if len(chosen) < self._size:
            everything = len(finished) == len(self._slots)
            return chosen if self._exhausted and everything else None
        return chosen if self._leaves_nothing_late(chosen) else None

    def _leaves_nothing_late(self, chosen: Sequence[int]) -> bool:
        """Whether the remaining groups can all meet their deadlines, one batch per version."""
        left = sorted(
            place.deadline for number, place in self._slots.items() if number not in set(chosen)
        )
        return all(
            count <= (deadline - self._version) * self._size
            for count, deadline in enumerate(left, start=1)
        )

    def consume(self, numbers: Iterable[int]) -> None:
        """Take a batch; until `advance_version` the policy is being updated with it."""
        for number in numbers:
            del self._slots[number]
        if self._batches is not None:
            self._batches -= 1
        self._taken = True
        self._dropped = 0

    def advance_version(self) -> None:
        """Move to the next policy version, which the engine now samples with."""
        self._version += 1
        self._taken = False

    def skip(self, *, again: bool = False) -> None:
        """Skip the update: the policy keeps its version. ``again``: another batch takes its
        place."""
        self._taken = False
        if again and self._batches is not None:
            self._batches += 1


MAX_CONSECUTIVE_FAILURES = 64
"""The job fails after this many consecutive groups without a usable sample."""


@dataclass
class RolloutStats:
    """What was sampled since the last call; ``seconds`` with at least one sample in flight."""

    samples: list[Trajectory] = field(default_factory=list)
    groups: int = 0
    filtered: int = 0
    failed: int = 0
    seconds: float = 0.0


class RolloutScheduler:
    """Keeps rollouts in flight; `batch` waits for the groups of the next update.

    ``keep`` is called with every finished sample. ``outage`` is told why nothing can be trained on,
    if the infrastructure is to blame; without it the job fails. ``ended`` gets every group whose
    samples are finished, trained on or not. `run` must run concurrently with
    the consumer; an error in it ends the job.
    """

    def __init__(
        self,
        prompts: PromptSampler,
        source: TrajectorySource,
        schedule: StalenessScheduler,
        rules: GroupConfig,
        max_concurrency: int,
        keep: Callable[[Trajectory], None],
        outage: Callable[[str], None] | None = None,
        ended: Callable[[Group], None] | None = None,
    ) -> None:
        self._outage = outage
        self._ended = ended
        self._draws = prompts
        self._source = source
        self._staleness = schedule
        self._rules = rules
        self._slots = asyncio.Semaphore(max_concurrency)
        self._keep = keep
        self._groups: dict[int, Group] = {}
        self._changed = asyncio.Condition()
        self._consecutive_failures = 0
        self._in_flight = 0
        self._busy_since = 0.0
        self._stats = RolloutStats()
        self._unused: list[Group] = []
        self.lost_share = 0.0
        """Of the samples of the last batch, and of the groups dropped before it, the share left
        out."""

    @property
    def groups(self) -> list[Group]:
        """The groups in flight or waiting to be trained on, in draw order."""
        return [self._groups[number] for number in sorted(self._groups)]

    @property
    def in_flight(self) -> int:
        """The number of samples in flight."""
        return self._in_flight

    async def run(self, restored: Iterable[Group] = ()) -> None:
        """Run until cancelled, completing restored groups first."""
        async with asyncio.TaskGroup() as tasks:
            for group in restored:
                self._begin(group)
                tasks.create_task(self._play(group))
            while True:
                while self._staleness.free_slots:
                    tasks.create_task(self._play(self._draw()))
                async with self._changed:
                    await self._changed.wait_for(lambda: self._staleness.free_slots)

    async def batch(self) -> list[Group]:
        """Wait for the groups of the next update and take them, in the order of their draws. Fewer
        than usual, or none, only if too many groups were dropped by the filter."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._staleness.ready() is not None)
            numbers = sorted(self._staleness.ready() or [])
            self._staleness.consume(numbers)
            self._changed.notify_all()
        groups = [self._groups.pop(number) for number in numbers]
        drawn = [sample for each in (*groups, *self._unused) for sample in each.samples.values()]
        lost = sum(sample.left_out is not None for sample in drawn)
        self.lost_share = lost / len(drawn) if drawn else 0.0
        self._unused.clear()
        return groups

    async def advance_version(self) -> None:
        """Note that the engine samples with the next policy version."""
        await self._apply(self._staleness.advance_version)

    async def skip(self, *, again: bool = False) -> None:
        """Skip the update; the version stays. ``again``: another batch takes its place."""
        await self._apply(lambda: self._staleness.skip(again=again))

    def take_stats(self) -> RolloutStats:
        """The statistics since the last call."""
        self._count_time()
        stats, self._stats = self._stats, RolloutStats()
        return stats

    async def _apply(self, change: Callable[[], None]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()

    def _draw(self) -> Group:
        draw = self._draws.next()
        group = Group(
            number=draw.number,
            prompt=draw.prompt,
            size=self._rules.samples,
            started=self._staleness.version,
            rewarded=self._rules.rewarded,
        )
        self._begin(group)
        return group

    def _begin(self, group: Group) -> None:
        self._groups[group.number] = group
        self._staleness.begin(group.number, group.started)

    async def _play(self, group: Group) -> None:
        draw = self._draws.at(group.number)
        async with asyncio.TaskGroup() as tasks:
            for index in group.missing:
                tasks.create_task(self._sample(group, draw, index))
        await self._apply(lambda: self._end(group))

    async def _sample(self, group: Group, draw: SampledPrompt, index: int) -> None:
        async with self._slots:
            with self._counted():
                trajectory = await self._source.sample(draw, index)
        # No await in between: a checkpoint finds the sample in both or in neither.
        self._keep(trajectory)
        group.samples[index] = trajectory
        self._stats.samples.append(trajectory)

    def _end(self, group: Group) -> None:
        self._stats.groups += 1
        if self._ended is not None:
            self._ended(group)
        if len(group.usable) < self._rules.usable:
            self._fail(group)
        elif self._rules.filtered and not group.has_signal:
            self._consecutive_failures = 0
            self._stats.filtered += 1
            self._drop(group)
        else:
            self._consecutive_failures = 0
            self._staleness.finish(group.number)

    def _fail(self, group: Group) -> None:
        self._stats.failed += 1
        self._consecutive_failures += 1
        if self._consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
            message = (
                f"no usable sample in {MAX_CONSECUTIVE_FAILURES} consecutive prompts; "
                f"the last: {group.failure or 'too few samples'}"
            )
            if self._outage is None or not group.lost:
                raise JobFailed(message, code="rollouts_failed")
            self._outage(message)
        self._drop(group)

    def _drop(self, group: Group) -> None:
        del self._groups[group.number]
        self._unused.append(group)
        self._staleness.drop(group.number)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._count_time()
        self._in_flight += 1
        try:
            yield
        finally:
            self._count_time()
            self._in_flight -= 1

    def _count_time(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._in_flight:
            self._stats.seconds += now - self._busy_since
        self._busy_since = now


def observe(curriculum: CurriculumOrder, threshold: PassThreshold, group: Group) -> None:
    """Tell a curriculum how many samples of a group passed."""
    curriculum.observe(group.number, len(group.usable), group.passed(threshold))


def staleness_scheduler(online: Online, step: int, version: int) -> StalenessScheduler:
    """The scheduler of a method, from a step and a policy version on."""
    settings = online.hyperparameters
    size = settings.prompts_per_step
    replacements = None
    if isinstance(online, ReinforcementMethod) and online.hyperparameters.dynamic_sampling:
        replacements = (online.hyperparameters.dynamic_sampling.max_batches - 1) * size
    return StalenessScheduler(
        size,
        settings.max_staleness,
        version,
        batches=settings.steps - step,
        replacements=replacements,
    )
