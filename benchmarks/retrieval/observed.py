"""The load generator's report on searches."""

from benchmarks.serving.observed import Observed


class ObservedSearches(Observed):
    """``rate`` is in queries; ``hits`` is the mean number of passages found in the checked
    responses."""

    hits: float = float("nan")
