"""PANORAMA as a family of rewards."""

from collections.abc import Sequence
from contextlib import nullcontext

from services.contracts.base import JsonObject
from services.contracts.rewards.graders import PanoramaGrader
from services.rewards.families import RewardContext, RewardFamily
from services.rewards.panorama.grader import Panorama
from services.rewards.panorama.rows import read_question


class PanoramaFamily(RewardFamily[PanoramaGrader]):
    """Answers about patents."""

    settings = PanoramaGrader

    def open(self, settings: PanoramaGrader, context: RewardContext) -> nullcontext[Panorama]:  # noqa: ARG002 - the interface of families
        """Return a component that needs nothing but the row."""
        return nullcontext(Panorama(settings))

    def check_row(self, fields: JsonObject, golds: Sequence[str], settings: PanoramaGrader) -> None:
        """Raise `InvalidRequest` for a row without a right answer."""
        read_question(fields, golds, settings.task)
