"""Families of rewards: those that have a folder here, and those that other packages add.

Both are entry points of the group ``temper.rewards``; ours are in `OWN`, because an image has no
metadata of packages. A family is imported when a request names it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import ChemistryGrader, FunctionCallsGrader, PanoramaGrader
from services.contracts.rewards.rewards import ExtensionReward
from services.core.extensions import load_extension
from services.core.operator_environment import OperatorEnvironment
from services.rewards.interface import Component

FamilyReward = ChemistryGrader | FunctionCallsGrader | PanoramaGrader | ExtensionReward

GROUP = "temper.rewards"
OWN = {
    name: EntryPoint(name, f"services.rewards.{name}.family:{value}", GROUP)
    for name, value in (
        ("chemistry", "ChemistryFamily"),
        ("function_calls", "FunctionCallsFamily"),
        ("panorama", "PanoramaFamily"),
    )
}
"""Our families, by the type of their rewards."""

SettingsT = TypeVar("SettingsT", bound=BaseModel)


@dataclass(frozen=True)
class RewardContext:
    """What a component is made for: what the operator allows, and its field of the request."""

    environment: OperatorEnvironment
    param: str


class RewardFamily(ABC, Generic[SettingsT]):
    """Rewards of one name; made without arguments."""

    settings: type[SettingsT]
    """The model of their settings."""

    @abstractmethod
    def open(
        self, settings: SettingsT, context: RewardContext
    ) -> AbstractAsyncContextManager[Component]:
        """Return a component, whose connections and processes live as long as the block.

        Contacts nothing. Raises `InvalidRequest` for what can never be scored.
        """

    def check_row(self, fields: JsonObject, golds: Sequence[str], settings: SettingsT) -> None:
        """Raise `InvalidRequest` for a row of an evaluation that cannot be graded."""


def installed_family(name: str, param: str) -> RewardFamily[Any]:
    """Import a family of another package; raises `InvalidRequest`, naming the field ``param``."""
    family = load_extension(GROUP, name, param)()
    if not isinstance(family, RewardFamily):
        raise InvalidRequest(f"the extension {name!r} is not a family of rewards", param=param)
    return family


def family_and_settings(reward: FamilyReward, param: str) -> tuple[RewardFamily[Any], BaseModel]:
    """Return the family of a reward, the field ``param``, and its checked settings.

    Raises `InvalidRequest`, naming the first wrong field.
    """
    if not isinstance(reward, ExtensionReward):
        return OWN[reward.type].load()(), reward
    family = installed_family(reward.name, f"{param}.name")
    try:
        return family, family.settings.model_validate(reward.settings)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join((param, "settings", *map(str, fault["loc"])))
        raise InvalidRequest(fault["msg"], param=where) from None
