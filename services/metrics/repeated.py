"""Accuracy, pass@k and majority votes of items that were answered several times.

Samples of one item are alike, so uncertainty is over items (clusters), not over samples: see
`bounded_mean`. A sample without a grade counts as wrong.
"""

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over items, its standard error and its 95 % interval."""

    mean: float
    stderr: float
    ci95: tuple[float, float]


def bounded_mean(totals: Sequence[float], sizes: Sequence[int], samples: int) -> Estimate:
    """The mean of values in [0, 1] that come in clusters: ``totals`` are the clusters' sums.

    ``stderr`` is that of a mean over clusters (W. G. Cochran, "Sampling Techniques", 1977).
    ``ci95`` is that of `bounded_interval`; with clusters of one 0/1 value each it is the ordinary
    Wilson interval.
    """
    clusters, number = len(totals), sum(sizes)
    if not clusters or len(sizes) != clusters:
        raise ValueError(f"{clusters} sums of {len(sizes)} clusters have no mean")
    mean = math.fsum(totals) / number
    squares = math.fsum(
        (total - mean * size) ** 2 for total, size in zip(totals, sizes, strict=True)
    )
    variance = squares / number**2
    if clusters == 1:
        # Between-item variance cannot be seen: what is left is that within the item.
        stderr = math.sqrt(mean * (1 - mean) / (samples - 1)) if samples > 1 else 0.0
        return Estimate(mean, stderr, _wilson(mean, samples))
    stderr = math.sqrt(variance * clusters / (clusters - 1))
    return Estimate(mean, stderr, bounded_interval(mean, variance, clusters, samples))


def bounded_interval(
    mean: float, variance: float, clusters: int, samples: int
) -> tuple[float, float]:
    """The 95 % interval of a mean within 0 and 1 over clusters of so many samples in total.

    It is Wilson's score interval at the effective sample size, as E. L. Korn and B. I. Graubard,
    "Confidence Intervals for Proportions with Small Expected Number of Positive Counts Estimated
    from Survey Data", Survey Methodology 24 (1998), use it: at most ``samples``, and the number of
    clusters when all values are 0 or all are 1.
    """
    if mean in (0.0, 1.0):
        return _wilson(mean, clusters)
    spread = mean * (1 - mean)
    return _wilson(mean, spread / max(variance, spread / samples))


def _wilson(mean: float, samples: float) -> tuple[float, float]:
    z2 = _Z95**2
    center = mean + z2 / (2 * samples)
    half = _Z95 * math.sqrt(mean * (1 - mean) / samples + z2 / (4 * samples**2))
    scale = 1 + z2 / samples
    # The ends are exact where rounding would leave them a hair off.
    low = 0.0 if mean == 0 else (center - half) / scale
    high = 1.0 if mean == 1 else (center + half) / scale
    return low, high


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The probability that at least one of ``k`` of an item's samples is correct.

    The unbiased estimator of M. Chen et al., "Evaluating Large Language Models Trained on Code"
    (2021), arXiv:2107.03374, as their product, which does not overflow.
    """
    if not (0 <= correct <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} is undefined for {correct} correct of {samples} samples")
    if samples - correct < k:
        return 1.0
    return 1.0 - math.prod(1 - k / each for each in range(samples - correct + 1, samples + 1))


def shown_k(samples: int) -> list[int]:
    """The k for which pass@k is reported: powers of two below ``samples``, and ``samples``."""
    powers = [2**power for power in range(samples.bit_length()) if 2**power < samples]
    return [*powers, samples]


@dataclass(slots=True)
class _Vote:
    """The samples of an item whose answers have one normal form."""

    count: int = 0
    right: int = 0
    text: str | None = None
    """One of the answers, the same in any order of the samples; None if answers are not compared.
    """
    equal: list["_Vote"] = field(default_factory=list)
    """Others whose answers were found equal."""

    @property
    def support(self) -> int:
        """How many samples have this answer, or one that equals it."""
        return self.count + sum(each.count for each in self.equal)


class RepeatedSamples:
    """Counts the samples of items, in any order; items are numbered from 0.

    Answers vote by the normal form of what the grader compared, and for all that equal it, as far
    as `unite` was told. The majority vote of an item is the answer that most samples have or
    equal. Where equality is not transitive (5 is 5 cm and is 5 in, which differ) each answer has a
    number of its own: no order of the samples decides, and nothing is equal by a detour. If
    several answers lead, or one was graded differently, the share of their samples that is right
    counts; where equality is transitive, that is the mean over the leading answers. A sample
    without such a text does not vote, and an item without votes is wrong.
    """

    def __init__(self, samples_per_item: int = 1) -> None:
        self._votes: dict[int, dict[int, _Vote]] | None = {} if samples_per_item > 1 else None
        self._samples, self._correct = array("H"), array("H")

    def add(
        self, item: int, *, correct: bool, answer: str | None, compared: str | None = None
    ) -> None:
        """Count one sample that votes for the normal form ``answer``; ``compared`` is the text of
        the answer where the grader can compare it with others."""
        missing = item + 1 - len(self._samples)
        if missing > 0:
            for counts in (self._samples, self._correct):
                counts.frombytes(bytes(missing * counts.itemsize))
        self._samples[item] += 1
        self._correct[item] += correct
        if self._votes is not None and answer is not None:
            # Hashes keep the memory small; 64 bits make a collision within an item negligible.
            vote = self._votes.setdefault(item, {}).setdefault(hash(answer), _Vote())
            vote.count += 1
            vote.right += correct
            if compared is not None:
                vote.text = compared if vote.text is None else min(vote.text, compared)

    def disputed(self, most: int) -> Iterator[tuple[int, list[str]]]:
        """The items whose majority depends on which answers are equal, and texts of their ``most``
        most frequent answers, in an order that is not that of the samples.

        It does not where all votes are right, or all are wrong.
        """
        for item, votes in (self._votes or {}).items():
            texts = _by_frequency(votes)
            right, wrong = (
                sum(vote.right for vote in votes.values()),
                sum(vote.count - vote.right for vote in votes.values()),
            )
            if len(texts) > 1 and right and wrong:
                yield item, [str(vote.text) for vote in texts[:most]]

    def unite(self, item: int, pairs: Iterable[tuple[str, str]]) -> None:
        """Let answers of an item that are equal vote for each other, by the texts of `disputed`."""
        votes = {vote.text: vote for vote in (self._votes or {}).get(item, {}).values()}
        for one, other in pairs:
            votes[one].equal.append(votes[other])
            votes[other].equal.append(votes[one])

    @property
    def items(self) -> int:
        """Items with at least one sample."""
        return sum(1 for number in self._samples if number)

    @property
    def most_samples(self) -> int:
        """The samples of the item that has most."""
        return max(self._samples, default=0)

    def accuracy(self) -> Estimate:
        """The mean over all samples, avg@n; needs at least one."""
        seen = self._seen()
        correct = [float(self._correct[item]) for item in seen]
        sizes = [self._samples[item] for item in seen]
        return bounded_mean(correct, sizes, sum(sizes))

    def pass_at(self, k: int) -> Estimate:
        """The mean of pass@k over all items; needs at least one.

        An item with fewer than ``k`` samples, as others were lost, counts with all that it has:
        that is at most its pass@k on average, so that losses never raise the mean, which has the
        same items for every ``k``.
        """
        seen = self._seen()
        values = [
            pass_at_k(self._samples[item], self._correct[item], min(k, self._samples[item]))
            for item in seen
        ]
        return bounded_mean(values, [1] * len(seen), sum(self._samples))

    def majority(self) -> Estimate | None:
        """The share of items whose majority vote is right; None if no sample voted."""
        if not self._votes:
            return None
        seen = self._seen()
        values = [_majority(self._votes.get(item, {}).values()) for item in seen]
        return bounded_mean(values, [1] * len(seen), len(seen))

    def _seen(self) -> list[int]:
        return [item for item, number in enumerate(self._samples) if number]


def _by_frequency(votes: dict[int, _Vote]) -> list[_Vote]:
    compared = [vote for vote in votes.values() if vote.text is not None]
    return sorted(compared, key=lambda vote: (-vote.count, vote.text))


def _majority(votes: Collection[_Vote]) -> float:
    most = max((vote.support for vote in votes), default=0)
    leading = [vote for vote in votes if vote.support == most]
    count = sum(vote.count for vote in leading)
    return sum(vote.right for vote in leading) / count if count else 0.0
