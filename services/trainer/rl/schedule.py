"""Which groups of rollouts may begin, and which make the next batch.

A group that begins under policy version v must be trained on when the policy has version v +
``max_staleness`` at the latest. It is never dropped for being slow: the update that would make it
older than that waits for it. So many groups begin at most that this wait always ends with a batch
of the usual size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass
class _Place:
    deadline: int  # the last version that may be trained with it
    finished: int | None = None  # its rank among those that finished


class Schedule:
    """Counts groups, each known by its number; knows nothing of time or tokens.

    ``size`` groups make a batch, of which ``batches`` are still to be made; None: any number.
    ``replacements`` bounds how many groups may be dropped for one batch; None: any number.
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
        self._places: dict[int, _Place] = {}
        self._ranks = 0
        self._dropped = 0
        self._taken = False

    @property
    def version(self) -> int:
        """The policy version that begins groups now."""
        return self._version

    @property
    def room(self) -> int:
        """How many groups may begin now."""
        if self._exhausted:
            return 0
        batches = self._staleness if self._taken else self._staleness + 1
        if self._batches is not None:
            batches = min(batches, self._batches)
        return max(0, batches * self._size - len(self._places))

    @property
    def _exhausted(self) -> bool:
        """Whether so many groups were dropped that the batch is to be made of what there is."""
        return self._replacements is not None and self._dropped > self._replacements

    def begin(self, number: int, version: int | None = None) -> None:
        """A group begins; under an earlier ``version`` where it was begun before a restart."""
        started = self._version if version is None else version
        self._places[number] = _Place(started + self._staleness)

    def finish(self, number: int) -> None:
        """A group can be trained on."""
        self._places[number].finished = self._ranks
        self._ranks += 1

    def drop(self, number: int) -> None:
        """A group is of no use; another may begin in its place."""
        del self._places[number]
        self._dropped += 1

    def ready(self) -> list[int] | None:
        """The groups of the next batch, those with the earliest deadline first; None while it has
        to wait. Fewer than a batch, or none, only when too many were dropped."""
        finished = sorted(
            (place.deadline, place.finished, number)
            for number, place in self._places.items()
            if place.finished is not None
        )
        chosen = [number for _, _, number in finished[: self._size]]
        if len(chosen) < self._size:
            everything = len(finished) == len(self._places)
            return chosen if self._exhausted and everything else None
        return chosen if self._leaves_nothing_late(chosen) else None

    def _leaves_nothing_late(self, chosen: Sequence[int]) -> bool:
        """Whether the groups left can all be trained on in time, a batch at each version."""
        left = sorted(
            place.deadline for number, place in self._places.items() if number not in set(chosen)
        )
        return all(
            count <= (deadline - self._version) * self._size
            for count, deadline in enumerate(left, start=1)
        )

    def take(self, numbers: Iterable[int]) -> None:
        """The batch is made; until `advance` the policy is being updated with it."""
        for number in numbers:
            del self._places[number]
        if self._batches is not None:
            self._batches -= 1
        self._taken = True
        self._dropped = 0

    def advance(self) -> None:
        """The policy has its next version, and the engine samples with it."""
        self._version += 1
        self._taken = False

    def stay(self) -> None:
        """There was nothing to learn from: the policy keeps its version."""
        self._taken = False
