"""The scores of an extension's component, checked in whole before anything counts on them."""

import logging
import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import SupportsIndex, TypeVar

from services.contracts.failures import InfrastructureCause
from services.inference.causes import cause_of_foreign
from services.rewards.functions import as_float, read_score, shown
from services.rewards.interface import Component, RewardFailed, RewardFailureKind, Sample, Score

logger = logging.getLogger(__name__)

NumberT = TypeVar("NumberT", int, float)


class ExtensionScore:
    """The score of an extension's component, whose failures name the extension."""

    def __init__(self, name: str, component: Component) -> None:
        self._source = f"the extension {name!r}"
        self._component = component

    async def score(self, sample: Sample) -> Score:
        """Ask the component; what it raises, or returns in place of a `Score` of the declared
        types, is a failure like that of a user's function."""
        try:
            return _checked(await self._component.score(sample), self._source)
        except RewardFailed as error:
            if error.cause not in (None, *InfrastructureCause):
                message = f"{self._source} gave the cause {shown(error.cause)}: {error.message}"
                raise RewardFailed(message) from None
            raise
        except (Exception, SystemExit) as error:
            logger.warning("%s scored %s", self._source, sample.trajectory.id, exc_info=True)
            message = f"{self._source} raised {type(error).__name__}: {error}"
            raise RewardFailed(message, RewardFailureKind.OTHER, cause_of_foreign(error)) from error


def _checked(given: object, source: str) -> Score:
    """The score with plain numbers and texts in all its fields."""
    if not isinstance(given, Score):
        raise RewardFailed(f"{source} gave {shown(given)}, not a Score")
    return Score(
        value=read_score(given.value, source),
        parts=_numbers(given.parts, _finite, f"{source} gave parts"),
        tokens=_numbers(given.tokens, _count, f"{source} gave tokens"),
        extracted=_text(given.extracted, f"{source} gave extracted"),
        group=_text(given.group, f"{source} gave group"),
        measures=_numbers(given.measures, _finite, f"{source} gave measures"),
        vote=_text(given.vote, f"{source} gave vote"),
    )


def _numbers(
    given: object, read: Callable[[object, str], NumberT], place: str
) -> dict[str, NumberT]:
    if not isinstance(given, Mapping):
        raise RewardFailed(f"{place} = {shown(given)}, not numbers by name")
    unnamed = [name for name in given if not isinstance(name, str)]
    if unnamed:
        raise RewardFailed(f"{place} with the name {shown(unnamed[0])}, not a text")
    return {str(name): read(each, f"{place}[{shown(name)}]") for name, each in given.items()}


def _finite(given: object, place: str) -> float:
    number = as_float(given)
    if number is None or not math.isfinite(number):
        raise RewardFailed(f"{place} = {shown(given)}, not a finite number")
    return number


def _count(given: object, place: str) -> int:
    with suppress(TypeError):  # of arrays that are not one integer
        if isinstance(given, SupportsIndex):
            return operator.index(given)
    raise RewardFailed(f"{place} = {shown(given)}, not an integer")


def _text(given: object, place: str) -> str | None:
    if not isinstance(given, str | None):
        raise RewardFailed(f"{place} = {shown(given)}, not a text")
    return None if given is None else str(given)
