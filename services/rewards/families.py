"""Families of rewards: those that have a folder here, and those that other packages add.

Both are entry points of the group ``temper.rewards``; ours are in `OWN`, because an image has no
metadata of packages. A family is imported when a request names it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import UnionType
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.metrics import MainMetric
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import ChemistryGrader, FunctionCallsGrader, PanoramaGrader
from services.contracts.rewards.rewards import ExtensionReward, Reward
from services.contracts.validation import first_fault
from services.core.extensions import blamed_on, find_extension, make_family
from services.core.operator_environment import OperatorEnvironment
from services.core.process.runtimes import RuntimeMissing, find_runtime
from services.metrics.measures import PLAIN, MeasureRules
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

    def python(self, runtime: str) -> Path:
        """Return the interpreter of an installed runtime; raises `InvalidRequest` without it."""
        try:
            if (folder := self.environment.runtimes) is not None:
                return find_runtime(folder, runtime).python
        except RuntimeMissing:
            pass
        message = (
            f"needs the runtime {runtime!r}, which is not installed; install it with: "
            f"python infra/runtimes/install.py {runtime}"
        )
        raise InvalidRequest(message, param=self.param, code="runtime_missing")


class RewardFamily(ABC, Generic[SettingsT]):
    """Rewards of one name; made without arguments.

    All that an evaluation has to know of a grader beside its scores is asked of its family.
    """

    settings: type[SettingsT]
    """The model of their settings."""
    runtime: str | None = None
    """The runtime that grades, without which no evaluation begins; see `RewardContext.python`."""
    extracts: bool = False
    """Scores name what they compared (``extracted``): an answer without it is unparsable."""
    json_golds: bool = False
    """A gold of a benchmark that is a list is one gold, written as JSON, instead of several."""
    measures: MeasureRules = PLAIN
    """How the measures of scores become those of an evaluation."""

    @abstractmethod
    def open(
        self, settings: SettingsT, context: RewardContext
    ) -> AbstractAsyncContextManager[Component]:
        """Return a component, whose connections and processes live as long as the block.

        Contacts nothing. Raises `InvalidRequest` for what can never be scored.
        """

    def check_row(self, fields: JsonObject, golds: Sequence[str], settings: SettingsT) -> None:
        """Raise `InvalidRequest` for a row of an evaluation that cannot be graded."""

    def subtask_of(
        self,
        fields: JsonObject,  # noqa: ARG002 - the interface of families
        settings: SettingsT,  # noqa: ARG002
    ) -> str | None:
        """Return the ``group`` of the scores of a row of an evaluation, by which samples without a
        score are counted as well; None: it has none, or the answer decides."""
        return None

    def main_metric(
        self,
        settings: SettingsT,  # noqa: ARG002 - the interface of families
        metrics: EvaluationMetrics,  # noqa: ARG002
    ) -> MainMetric | None:
        """Return the number that stands for an evaluation; None: the accuracy.

        A benchmark that declares a metric of its own is not asked for this one.
        """
        return None

    def may_regrade(
        self,
        settings: SettingsT,  # noqa: ARG002 - the interface of families
        environment: OperatorEnvironment,  # noqa: ARG002
    ) -> str | None:
        """Return why equal answers may be graded otherwise, so that no evaluation reuses them.

        None: the grade depends on row, answer, settings, package and runtime alone.
        """
        return "its extension may grade otherwise"


def family_of(reward: Reward, param: str) -> tuple[RewardFamily[Any], BaseModel] | None:
    """Return `family_and_settings` of a reward; None for one that belongs to no family."""
    return family_and_settings(reward, param) if isinstance(reward, FamilyReward) else None


def families_of(rewards: Iterable[Reward], param: str) -> list[tuple[RewardFamily[Any], BaseModel]]:
    """Return `family_of` each reward that has one."""
    found = (family_of(reward, param) for reward in rewards)
    return [each for each in found if each is not None]


def family_and_settings(reward: FamilyReward, param: str) -> tuple[RewardFamily[Any], BaseModel]:
    """Return the family of a reward, the field ``param``, and its checked settings.

    Raises `InvalidRequest`, naming the first wrong field.
    """
    if not isinstance(reward, ExtensionReward):
        return OWN[reward.type].load()(), reward
    try:
        family = _installed_family(reward.name)
    except InvalidRequest as error:
        error.param = f"{param}.name"
        raise
    with blamed_on(reward.name, f"{param}.name"):
        try:
            return family, family.settings.model_validate(reward.settings)
        except ValidationError as error:
            fault = first_fault(error)
            where = ".".join((param, "settings", *map(str, fault.location)))
            raise InvalidRequest(fault.message, param=where) from None


def check_row(reward: Reward, param: str, fields: JsonObject, golds: Sequence[str]) -> None:
    """Raise `InvalidRequest` for a row of an evaluation that the grader ``reward``, the field
    ``param``, cannot grade."""
    if (found := family_of(reward, param)) is not None:
        family, settings = found
        with _named(reward, param):
            family.check_row(fields, golds, settings)


def subtask_of(reward: Reward, param: str, fields: JsonObject) -> str | None:
    """Return the sub-task of a row of an evaluation, as the family of the grader names it."""
    if (found := family_of(reward, param)) is None:
        return None
    family, settings = found
    with _named(reward, param):
        name: object = family.subtask_of(fields, settings)
        if not isinstance(name, str | None):
            raise TypeError(f"its subtask_of gave {name!r:.100}, not a text")
    return name


def grader_metric(reward: Reward, param: str, metrics: EvaluationMetrics) -> MainMetric | None:
    """Return the number that the family of a grader names for an evaluation; None: it names none,
    or the grader belongs to no family."""
    if (found := family_of(reward, param)) is None:
        return None
    family, settings = found
    with _named(reward, param):
        named: object = family.main_metric(settings, metrics)
        if named is not None and not isinstance(named, MainMetric):
            raise TypeError("its main metric is not a MainMetric")
        if named is not None:
            numbers = (named.mean, named.stderr, *(named.ci95 or ()))
            if not all(number is None or math.isfinite(number) for number in numbers):
                raise ValueError(f"its main metric {named.name} has a number that is not finite")
    return named


def may_regrade(reward: Reward, param: str, environment: OperatorEnvironment) -> str | None:
    """Return why the family of a grader may grade equal answers otherwise; None: it does not, or
    the grader belongs to no family."""
    if (found := family_of(reward, param)) is None:
        return None
    family, settings = found
    with _named(reward, param):
        reason: object = family.may_regrade(settings, environment)
        if not isinstance(reason, str | None):
            raise TypeError(f"its may_regrade gave {reason!r:.100}, not a reason")
    return reason


def _named(reward: Reward, param: str) -> AbstractContextManager[None]:
    """Name the extension in what it raises in the block; families of ours raise their own."""
    if isinstance(reward, ExtensionReward):
        return blamed_on(reward.name, f"{param}.name")
    return nullcontext()


def package_of(reward: Reward) -> str | None:
    """Return name and version of the package that a reward is from; None for one of ours."""
    if not isinstance(reward, ExtensionReward):
        return None
    found = find_extension(GROUP, reward.name)
    if found is None or found.dist is None:
        return None
    return f"{found.dist.name} {found.dist.version}"


@cache
def _installed_family(name: str) -> RewardFamily[Any]:
    """A family of another package: found once, since rows of files ask for it."""
    family: RewardFamily[Any] = make_family(
        GROUP, name, "name", RewardFamily, "a family of rewards"
    )
    with blamed_on(name, "name"):
        _check_declared(family)
    return family


_DECLARED: Mapping[str, type | UnionType] = {
    "runtime": str | None,
    "extracts": bool,
    "json_golds": bool,
    "measures": MeasureRules,
}
_RULES = TypeAdapter(MeasureRules)


def _check_declared(family: RewardFamily[Any]) -> None:
    """Raise `TypeError` for an attribute of another type than `RewardFamily` declares, which would
    fail an evaluation only when its answers are graded or counted."""
    settings: object = family.settings
    if not (isinstance(settings, type) and issubclass(settings, BaseModel)):
        raise TypeError(f"its settings is {settings!r:.100}, not a model of pydantic")
    for name, kind in _DECLARED.items():
        value = getattr(family, name)
        if not isinstance(value, kind):
            wanted = kind.__name__ if isinstance(kind, type) else kind
            raise TypeError(f"its {name} is {value!r:.100}, not {wanted}")
    rules = {field.name: getattr(family.measures, field.name) for field in fields(MeasureRules)}
    try:
        _RULES.validate_python(rules)
    except ValidationError as error:
        raise TypeError(f"its measures.{first_fault(error).sentence()}") from None
