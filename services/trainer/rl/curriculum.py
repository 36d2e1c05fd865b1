"""Which prompts are drawn, by their sources and by how often their samples passed so far.

Each draw is the turn of a source, by the weights of the sources, and is prioritized, a replay, or
uniform among the rows of that source. Prioritized draws choose among the prompts that were seen,
with a weight for each bucket of pass rates; by default p (1 - p), the variance of rewards of 0 and
1, which is what group-relative advantages learn from. Replays repeat prompts that passed for the
first time after groups that failed as a whole. Uniform draws go through all prompts in shuffled
epochs.
"""

import random
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from services.contracts.rollouts.sources import source_of
from services.contracts.training.curriculum import BUCKETS, Curriculum
from services.contracts.training.online import ReinforcementMethod
from services.trainer.rl.prompts import SourceTurns, TrainingPrompt
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

    ``turns`` are those that sources have had, and ``uniform`` the uniform draws of each source; one
    number for all is that of an earlier version, see `order_of`.
    ``seen`` is in the order in which rows are chosen from. ``drawn`` has the rows of the draws
    whose groups are pending, and ``observed`` those of them whose samples were counted.
    """

    model_config = ConfigDict(extra="forbid")

    turns: int = 0
    uniform: dict[str, int] | int = {}
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


@dataclass
class _Source:
    """What was seen of the rows of one source."""

    uniform: int = 0
    replays: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_REPLAYS))
    buckets: list[_Bucket] = field(default_factory=lambda: [_Bucket() for _ in range(BUCKETS)])
    unusable: set[int] = field(default_factory=set)


class CurriculumOrder:
    """A `PromptOrder` by the turns of sources and, with ``settings``, by what samples earned."""

    def __init__(
        self,
        settings: Curriculum | None,
        turns: SourceTurns,
        seed: int,
        state: CurriculumState | None = None,
    ) -> None:
        state = state or CurriculumState()
        self._settings = settings
        self._turns = turns
        self._turn = state.turns
        self._sizes = turns.sizes
        self._seed = seed
        uniform = state.uniform if isinstance(state.uniform, dict) else turns.counts(state.uniform)
        self._sources = {name: _Source(uniform.get(name, 0)) for name in self._sizes}
        self._seen = {each.row: each.model_copy() for each in state.seen}
        for row in state.replays:
            self._source_of(row).replays.append(row)
        for each in self._seen.values():
            self._source_of(each.row).buckets[each.bucket].add(each.row)
        self._drawn = dict(state.drawn)
        self._observed = set(state.observed)
        self._kinds: Counter[str] = Counter()

    def row(self, draw: int) -> int:
        """The row of a draw; a new draw is decided now."""
        if draw not in self._drawn:
            kind, self._drawn[draw] = self._decide(self._turn)
            self._turn += 1
            self._kinds[kind] += 1
        return self._drawn[draw]

    def replace(self, draw: int) -> bool:
        """See `PromptOrder`: the source has its turn again, with a draw of the same kind."""
        row = self._drawn.pop(draw)
        self._turn -= 1
        self._kinds[UNIFORM] -= 1  # what was seen can be used
        name = self._turns.source_of(row)
        unusable = self._sources[name].unusable
        unusable.add(row)
        return len(unusable) < self._sizes[name]

    def observe(self, draw: int, samples: int, passed: int) -> None:
        """Note how many samples of a draw's group passed; once, as a restart ends a finished group
        again."""
        if self._settings is None or not samples or draw in self._observed:
            return
        self._observed.add(draw)
        row = self._drawn[draw]
        source = self._source_of(row)
        known = self._seen.get(row)
        if known is None:
            known = self._seen[row] = SeenPrompt(row=row, samples=0.0, passed=0.0)
        else:
            source.buckets[known.bucket].remove(row)
            if passed and not known.passed:
                source.replays.append(row)
        known.samples = DECAY * known.samples + samples
        known.passed = DECAY * known.passed + passed
        source.buckets[known.bucket].add(row)

    def state(self, pending: Collection[int]) -> CurriculumState:
        """The state for a checkpoint; draws that are not ``pending`` are forgotten."""
        kept = set(pending)
        self._drawn = {draw: row for draw, row in self._drawn.items() if draw in kept}
        self._observed &= kept
        sources = self._sources.values()
        return CurriculumState(
            turns=self._turn,
            uniform={name: source.uniform for name, source in self._sources.items()},
            seen=tuple(
                self._seen[row].model_copy()
                for source in sources
                for bucket in source.buckets
                for row in bucket.rows
            ),
            replays=tuple(row for source in sources for row in source.replays),
            drawn=self._drawn,
            observed=tuple(sorted(self._observed)),
        )

    def metrics(self) -> dict[str, float]:
        """The shares of draws since the last call by kind, and of the seen prompts by pass rate;
        nothing without ``settings``."""
        if self._settings is None:
            return {}
        draws, self._kinds = self._kinds, Counter()
        buckets = [source.buckets for source in self._sources.values()]
        sizes = [sum(len(bucket.rows) for bucket in alike) for alike in zip(*buckets, strict=True)]
        shares = {
            "hard": sizes[0],
            "learnable": sum(sizes[1:-1]),
            "easy": sizes[-1],
        }
        seen, drawn = max(1, sum(sizes)), max(1, draws.total())
        return {
            "curriculum/seen": sum(sizes) / sum(self._sizes.values()),
            **{f"curriculum/{name}": count / seen for name, count in shares.items()},
            **{f"curriculum/{kind}": draws[kind] / drawn for kind in (PRIORITIZED, REPLAYED)},
        }

    def _source_of(self, row: int) -> _Source:
        return self._sources[self._turns.source_of(row)]

    def _decide(self, turn: int) -> tuple[str, int]:
        name = self._turns.at(turn)
        source = self._sources[name]
        seen = self._settings and self._of_the_seen(self._settings, source, turn)
        if seen:
            return seen
        source.uniform += 1
        return UNIFORM, self._turns.row(name, source.uniform - 1)

    def _of_the_seen(
        self, settings: Curriculum, source: _Source, turn: int
    ) -> tuple[str, int] | None:
        """A replay or a prioritized draw; None if it is the turn of a uniform one, or nothing fit
        was seen."""
        choice = random.Random(f"{self._seed}:curriculum:{turn}")  # noqa: S311 - no secret
        kind = choice.random()
        if kind < settings.replay:
            return (REPLAYED, source.replays.popleft()) if source.replays else None
        if kind >= settings.replay + settings.prioritized:
            return None
        weights = [
            weight * len(bucket.rows)
            for weight, bucket in zip(settings.weights, source.buckets, strict=True)
        ]
        if not any(weights):
            return None
        [bucket] = choice.choices(source.buckets, weights)
        return PRIORITIZED, choice.choice(bucket.rows)


def order_of(
    online: Online,
    rows: Sequence[TrainingPrompt],
    seed: int,
    state: CurriculumState | None,
    drawn: int = 0,
    pending: Collection[int] = (),
) -> CurriculumOrder | None:
    """The order in which a training draws its rows, from a checkpoint's state on; None with neither
    weights of sources nor a curriculum. Raises `InvalidRequest` for a weighted source without
    rows.

    ``drawn`` is the number of draws until the checkpoint, and ``pending`` those whose groups it
    has. Checkpoints of earlier versions have no other state than these where sources have weights
    and there is no curriculum: each draw was a turn.
    """
    weights = online.hyperparameters.source_weights
    settings = None
    if isinstance(online, ReinforcementMethod):
        settings = online.hyperparameters.curriculum
    if settings is None and not weights:
        return None
    turns = SourceTurns([source_of(row.prompt.extra) for row in rows], weights, seed)
    if state is None:
        found = {draw: turns.row_of(draw) for draw in pending}
        state = CurriculumState(turns=drawn, uniform=turns.counts(drawn), drawn=found)
    elif isinstance(state.uniform, int):
        state = state.model_copy(update={"turns": drawn})
    return CurriculumOrder(settings, turns, seed, state)
