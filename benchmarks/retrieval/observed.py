"""The load generator's report on searches."""

from benchmarks.serving.observed import Observed


class ObservedSearches(Observed):
    """``rate`` is in queries; ``hits`` is the mean number of passages that one found, of the
    answers that were looked into."""

    hits: float = float("nan")
