"""Which prompts are drawn, by how often their samples passed so far.

A draw is prioritized, a replay, or uniform. Prioritized draws choose among the prompts that were
seen, with a weight for each bucket of pass rates; by default p (1 - p), the variance of rewards of
0 and 1, which is what group-relative advantages learn from. Replays repeat prompts that passed for
the first time after groups that failed as a whole. Uniform draws go through all prompts in shuffled
epochs.
"""

import random
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from services.contracts.training.curriculum import BUCKETS, Curriculum
from services.contracts.training.online import ReinforcementMethod
from services.trainer.rl.prompts import PromptOrder
from services.trainer.rl.spec import Online

DECAY = 0.5
"""Weight of a prompt's earlier groups in its pass rate, per group since: the policy changes."""
MAX_REPLAYS = 10_000

PRIORITIZED, REPLAYED, UNIFORM = "prioritized", "replayed", "uniform"


class SeenPrompt(BaseModel):
    """The decayed counts of a prompt's samples, and of those that passed."""

    model_config = ConfigDict(extra="forbid")

    row: int
    samples: float
    passed: float

    @property
    def bucket(self) -> int:
        """The bucket of its pass rate, the hardest first."""
        return min(BUCKETS - 1, int(self.passed / self.samples * BUCKETS))


class CurriculumState(BaseModel):
    """What a curriculum has seen and drawn, as a checkpoint keeps it.

    ``seen`` is in the order in which rows are chosen from. ``drawn`` has the rows of the draws
    whose groups are pending, and ``observed`` those of them whose samples were counted.
    """

    model_config = ConfigDict(extra="forbid")

    uniform: int = 0
    seen: tuple[SeenPrompt, ...] = ()
    replays: tuple[int, ...] = ()
    drawn: dict[int, int] = {}
    observed: tuple[int, ...] = ()


@dataclass
class _Bucket:
    """Rows, of which one is drawn or removed in constant time."""

    rows: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)

    def add(self, row: int) -> None:
        self.places[row] = len(self.rows)
        self.rows.append(row)

    def remove(self, row: int) -> None:
        place, last = self.places.pop(row), self.rows.pop()
        if last != row:
            self.rows[place], self.places[last] = last, place


class CurriculumOrder:
    """A `PromptOrder` by what the samples earned; ``uniform`` is that of its uniform draws."""

    def __init__(
        self,
        settings: Curriculum,
        uniform: PromptOrder,
        seed: int,
        state: CurriculumState | None = None,
    ) -> None:
        state = state or CurriculumState()
        self._settings = settings
        self._order = uniform
        self._seed = seed
        self._uniform = state.uniform
        self._seen = {each.row: each.model_copy() for each in state.seen}
        self._replays = deque(state.replays, MAX_REPLAYS)
        self._drawn = dict(state.drawn)
        self._observed = set(state.observed)
        self._buckets = [_Bucket() for _ in range(BUCKETS)]
        for each in self._seen.values():
            self._buckets[each.bucket].add(each.row)
        self._kinds: Counter[str] = Counter()

    @property
    def rows(self) -> int:
        """See `PromptOrder`."""
        return self._order.rows

    def row(self, draw: int) -> int:
        """The row of a draw; a new draw is decided now."""
        if draw not in self._drawn:
            kind, self._drawn[draw] = self._decide(draw)
            self._kinds[kind] += 1
        return self._drawn[draw]

    def observe(self, draw: int, samples: int, passed: int) -> None:
        """Note how many samples of a draw's group passed; once, as a restart ends a finished group
        again."""
        if not samples or draw in self._observed:
            return
        self._observed.add(draw)
        row = self._drawn[draw]
        known = self._seen.get(row)
        if known is None:
            known = self._seen[row] = SeenPrompt(row=row, samples=0.0, passed=0.0)
        else:
            self._buckets[known.bucket].remove(row)
            if passed and not known.passed:
                self._replays.append(row)
        known.samples = DECAY * known.samples + samples
        known.passed = DECAY * known.passed + passed
        self._buckets[known.bucket].add(row)

    def state(self, pending: Collection[int]) -> CurriculumState:
        """The state for a checkpoint; draws that are not ``pending`` are forgotten."""
        kept = set(pending)
        self._drawn = {draw: row for draw, row in self._drawn.items() if draw in kept}
        self._observed &= kept
        return CurriculumState(
            uniform=self._uniform,
            seen=tuple(
                self._seen[row].model_copy() for bucket in self._buckets for row in bucket.rows
            ),
            replays=tuple(self._replays),
            drawn=self._drawn,
            observed=tuple(sorted(self._observed)),
        )

    def metrics(self) -> dict[str, float]:
        """The shares of draws since the last call by kind, and of the seen prompts by pass rate."""
        draws, self._kinds = self._kinds, Counter()
        sizes = [len(bucket.rows) for bucket in self._buckets]
        shares = {
            "hard": sizes[0],
            "learnable": sum(sizes[1:-1]),
            "easy": sizes[-1],
        }
        seen, drawn = max(1, sum(sizes)), max(1, draws.total())
        return {
            "curriculum/seen": sum(sizes) / self._order.rows,
            **{f"curriculum/{name}": count / seen for name, count in shares.items()},
            **{f"curriculum/{kind}": draws[kind] / drawn for kind in (PRIORITIZED, REPLAYED)},
        }

    def _decide(self, draw: int) -> tuple[str, int]:
        choice = random.Random(f"{self._seed}:curriculum:{draw}")  # noqa: S311 - no secret
        kind = choice.random()
        if kind < self._settings.replay:
            if self._replays:
                return REPLAYED, self._replays.popleft()
        elif kind < self._settings.replay + self._settings.prioritized:
            weights = [
                weight * len(bucket.rows)
                for weight, bucket in zip(self._settings.weights, self._buckets, strict=True)
            ]
            if any(weights):
                [bucket] = choice.choices(self._buckets, weights)
                return PRIORITIZED, choice.choice(bucket.rows)
        self._uniform += 1
        return UNIFORM, self._order.row(self._uniform - 1)


def curriculum_of(
    online: Online, uniform: PromptOrder, seed: int, state: CurriculumState | None
) -> CurriculumOrder | None:
    """The curriculum of a training, from a checkpoint's state on; None without one."""
    if not isinstance(online, ReinforcementMethod) or online.hyperparameters.curriculum is None:
        return None
    return CurriculumOrder(online.hyperparameters.curriculum, uniform, seed, state)
