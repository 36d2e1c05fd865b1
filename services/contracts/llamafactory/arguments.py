"""LLaMA-Factory's own argument names in a request: which exist, which a client may set.

The known arguments are listed in ``llamafactory_arguments.json`` beside this module, generated
from the installed version by ``services.trainer.offline.library.catalogue``.
"""

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.argument_values import (
    SPEED_ONLY,
    missing_package,
    schedule_problem,
    value_problem,
)
from services.contracts.llamafactory.closed import ArgumentProblem, refusal
from services.contracts.llamafactory.idle import idle
from services.contracts.llamafactory.names import Stage

CATALOGUE_PATH = Path(__file__).with_name("llamafactory_arguments.json")


class ArgumentRefused(InvalidRequest):
    """One argument cannot be accepted. ``nearest`` is the closest known name of an unknown one."""

    code = "invalid_llamafactory_argument"

    def __init__(
        self, key: str, problem: ArgumentProblem, message: str, *, nearest: str | None = None
    ) -> None:
        super().__init__(message, param=f"llamafactory.{key}")
        self.key = key
        self.problem = problem
        self.nearest = nearest


class Argument(BaseModel):
    """One argument of the installed version; ``types`` are JSON Schema's names."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    group: str
    types: list[str]
    choices: list[str] | None = None
    default: JsonValue = None


class Catalogue(BaseModel):
    """Every training argument of a version of LLaMA-Factory."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    llamafactory: str
    transformers: str
    templates: list[str]
    arguments: dict[str, Argument]


@cache
def catalogue() -> Catalogue:
    """The committed catalogue."""
    return Catalogue.model_validate_json(CATALOGUE_PATH.read_bytes())


def check_arguments(
    arguments: Mapping[str, JsonValue],
    stage: Stage = Stage.SFT,
    known: Catalogue | None = None,
    *,
    beside: Mapping[str, JsonValue] | None = None,
) -> None:
    """Check arguments that a client wants to set.

    Raises ArgumentRefused for the first key that is unknown, belongs to the platform, is unsafe,
    has no effect in ``stage``, or has a value of the wrong type or outside its choices. ``known``
    replaces the committed catalogue, for a check against an installed version; ``beside`` are
    settings made elsewhere, under LLaMA-Factory's names (see `idle`).
    """
    known = known or catalogue()
    together = {**(beside or {}), **arguments}
    for key, value in arguments.items():
        _check_name(key, known)
        _check_value(key, value, known.arguments[key])
        if (reason := idle(key, stage, together)) is not None and value is not None:
            message = f"{key} is not accepted: {reason}"
            raise ArgumentRefused(key, ArgumentProblem.NO_EFFECT, message)
        _check_usable(key, value)
    if (problem := schedule_problem(arguments)) is not None:
        raise ArgumentRefused("lr_scheduler_type", ArgumentProblem.BAD_CHOICE, problem)


def check_template(name: str) -> None:
    """Check a template name; raises InvalidRequest that names the nearest one."""
    templates = catalogue().templates
    if name not in templates:
        nearest = next(iter(difflib.get_close_matches(name, templates, n=1)), None)
        hint = f"; the nearest one is {nearest}" if nearest else ""
        raise InvalidRequest(
            f"{name[:100]} is not a template of LLaMA-Factory{hint}", param="template"
        )


def _check_name(key: str, known: Catalogue) -> None:
    if key not in known.arguments:
        open_keys = [name for name in known.arguments if refusal(name) is None]
        nearest = next(iter(difflib.get_close_matches(key, open_keys, n=1)), None)
        hint = f"; the nearest known one is {nearest}" if nearest else ""
        raise ArgumentRefused(
            key,
            ArgumentProblem.UNKNOWN,
            f"{key[:100]} is not an argument of LLaMA-Factory {known.llamafactory}{hint}",
            nearest=nearest,
        )
    closed = refusal(key)
    if closed is not None:
        problem, reason = closed
        raise ArgumentRefused(key, problem, f"{key} cannot be set: {reason}")


def _check_value(key: str, value: JsonValue, argument: Argument) -> None:
    types = [name for name in argument.types if not (name == "string" and key in _FILE_OR_OBJECT)]
    if not any(_is_a(value, name) for name in types):
        raise ArgumentRefused(
            key,
            ArgumentProblem.WRONG_TYPE,
            f"{key} must be {' or '.join(types)}, not {_type_name(value)}",
        )
    if argument.choices and isinstance(value, str) and value not in argument.choices:
        raise ArgumentRefused(
            key,
            ArgumentProblem.BAD_CHOICE,
            f"{key} must be one of {', '.join(argument.choices)}, not {value[:100]!r}",
        )


def _check_usable(key: str, value: JsonValue) -> None:
    """Reject values that LLaMA-Factory would only reject once training starts, or ignore."""
    if (package := missing_package(key, value)) is not None:
        message = (
            f"{key} {str(value)[:100]} needs {package}, which the training runtime does not have"
        )
        same = key in SPEED_ONLY
        raise ArgumentRefused(
            key, ArgumentProblem.NO_EFFECT if same else ArgumentProblem.UNSAFE, message
        )
    if key == "pref_loss" and value == "kto_pair":
        message = "pref_loss kto_pair has been retired; method kto takes its place"
        raise ArgumentRefused(key, ArgumentProblem.BAD_CHOICE, message)
    if key == "split_special_tokens" and value is True:
        message = (
            "split_special_tokens splits those of the chat template too, so that the model is "
            "trained on other tokens than it is served; control_tokens neutralize takes its place"
        )
        raise ArgumentRefused(key, ArgumentProblem.BAD_CHOICE, message)
    if (problem := value_problem(key, value)) is not None:
        raise ArgumentRefused(key, ArgumentProblem.BAD_CHOICE, problem)


def _is_a(value: JsonValue, type_name: str) -> bool:
    if type_name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if type_name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return _type_name(value) == type_name


def _type_name(value: JsonValue) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


# A string for one of these is the path of a file to read; only the object itself is accepted.
_FILE_OR_OBJECT = {"accelerator_config", "fsdp_config", "generation_config", "lr_scheduler_kwargs"}
