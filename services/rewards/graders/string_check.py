"""Comparing two texts."""

from services.contracts.graders import StringCheckGrader
from services.rewards.component import Score
from services.rewards.graders.template import fill_in
from services.rewards.sample import Sample


class StringCheck:
    """1 when the comparison holds, else 0."""

    def __init__(self, settings: StringCheckGrader) -> None:
        self._settings = settings

    async def score(self, sample: Sample) -> Score:
        """Compare the texts, filled in from the sample."""
        given = fill_in(self._settings.input, sample)
        reference = fill_in(self._settings.reference, sample)
        match self._settings.operation:
            case "eq":
                holds = given == reference
            case "ne":
                holds = given != reference
            case "like":
                holds = reference in given
            case "ilike":
                holds = reference.casefold() in given.casefold()
        return Score(float(holds))
