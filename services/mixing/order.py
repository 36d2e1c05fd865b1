"""The order of the rows of a mixture, and which rows are drawn."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import MAX_ROWS, MixStrategy
from services.mixing.line_file import LineFile


@dataclass(frozen=True)
class Mixing:
    """A strategy; with ``probabilities``, one for each dataset, the next one is drawn by ``seed``
    instead of taken in turn."""

    strategy: MixStrategy = MixStrategy.CONCAT
    probabilities: tuple[float, ...] | None = None
    seed: int = 0

    @classmethod
    def parse(cls, strategy: object, probabilities: object, seed: int) -> "Mixing":
        """Parse the arguments of a training file; raises `InvalidRequest`."""
        known = [each.value for each in MixStrategy]
        name = MixStrategy.CONCAT.value if strategy is None else strategy
        if name not in known:
            message = f"mix_strategy must be one of {', '.join(known)}, not {str(name)[:100]!r}"
            raise InvalidRequest(message, param="mix_strategy")
        return cls(MixStrategy(str(name)), _probabilities(probabilities), seed)

    def order(self, lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The order of the mixture's rows: the number of a dataset, and a row of it. Every length
        is at least 1. Raises `InvalidRequest` for probabilities of another number of datasets, and
        for a mixture of too many rows."""
        if self.strategy is MixStrategy.CONCAT:
            yield from ((source, row) for source, n in enumerate(lengths) for row in range(n))
            return
        if self.probabilities is not None and len(self.probabilities) != len(lengths):
            given = len(self.probabilities)
            raise InvalidRequest(
                f"interleave_probs has {given} values for {len(lengths)} datasets",
                param="interleave_probs",
            )
        yield from self._interleaved(lengths)

    def entries(
        self, parts: Sequence[LineFile], chosen: Sequence[Sequence[int]]
    ) -> Iterator[bytes]:
        """The mixture's rows: ``chosen`` has the numbers of each part's rows that are mixed."""
        for source, place in self.order([len(rows) for rows in chosen]):
            yield parts[source].entry(chosen[source][place])

    def _interleaved(self, lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
        is_over: Callable[[list[bool]], bool] = any if self.strategy is MixStrategy.UNDER else all
        exhausted = [False] * len(lengths)
        following = [0] * len(lengths)
        written = 0
        for source in self._sources(len(lengths)):
            # In turn, a round is completed: every dataset contributes equally many rows.
            if is_over(exhausted) and (self.probabilities is not None or source == 0):
                return
            if self.strategy is MixStrategy.ONCE and exhausted[source]:
                continue
            if written == MAX_ROWS:
                message = f"the mixture has more than {MAX_ROWS:,} rows"
                param = "mix_strategy" if self.probabilities is None else "interleave_probs"
                raise InvalidRequest(message, param=param)
            yield source, following[source]
            written += 1
            following[source] = (following[source] + 1) % lengths[source]
            exhausted[source] = exhausted[source] or following[source] == 0

    def _sources(self, count: int) -> Iterator[int]:
        if self.probabilities is None:
            while True:
                yield from range(count)
        generator = random.Random(self.seed)  # noqa: S311 - not for secrets
        while True:
            yield from generator.choices(range(count), weights=self.probabilities, k=1000)


def drawn(length: int, samples: int, seed: int) -> list[int]:
    """Draw ``samples`` rows of a dataset at random: each once, then repeated if more are
    requested."""
    generator = random.Random(seed)  # noqa: S311 - not for secrets
    once = generator.sample(range(length), min(samples, length))
    return once + generator.choices(range(length), k=samples - len(once))


def _probabilities(given: object) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        values = tuple(float(part) for part in str(given).split(","))
    except ValueError:
        values = ()
    if not values or min(values) <= 0 or abs(sum(values) - 1) > 1e-6:
        raise InvalidRequest(
            f"interleave_probs must be positive numbers with a sum of 1, not {str(given)[:100]!r}",
            param="interleave_probs",
        )
    return values
