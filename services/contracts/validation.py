"""What a failed validation says: the field at fault, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

Part = str | int
FieldPath = str | Sequence[Part]
"""A field of an object: its name, or the names and indexes that lead to it."""


class AtField(ValueError):
    """What a validator over several fields raises, as pydantic knows only the object.

    ``field`` is the one that a user would change; of several that contradict each other, `given_of`
    chooses one. ``message`` is understood without it.
    """

    def __init__(self, field: FieldPath, message: str) -> None:
        super().__init__(message)
        self.path = _parts(field)

    def below(self, *parents: Part) -> "AtField":
        """The same error for an object that has the validated one under ``parents``."""
        return AtField((*parents, *self.path), str(self))


def given_of(model: BaseModel, *fields: FieldPath) -> FieldPath:
    """The first of the fields of an object that was given to it, and not as null; without one the
    first. The others have their defaults, which a user did not write."""
    return next((field for field in fields if is_given(model, field)), fields[0])


def is_given(model: BaseModel, field: FieldPath) -> bool:
    """Whether a field of an object was given to it, and not as null."""
    value: object = model
    for part in _parts(field):
        if not isinstance(value, BaseModel):  # what a list or a mapping has was given with it
            return True
        if part not in value.model_fields_set:
            return False
        value = getattr(value, str(part))
    return value is not None


def _parts(field: FieldPath) -> tuple[Part, ...]:
    return (field,) if isinstance(field, str) else tuple(field)


@dataclass(frozen=True)
class Fault:
    """One problem: ``location`` has all names and indexes that lead to the field."""

    location: tuple[Part, ...]
    message: str

    @property
    def field(self) -> str:
        """The location as text, ``tools.0.name``; empty for the whole."""
        return ".".join(map(str, self.location))

    def sentence(self, whole: str = "") -> str:
        """Field and message; ``whole`` stands for the field of a problem of the whole."""
        field = self.field or whole
        return f"{field}: {self.message}" if field else self.message


def fault_of(problem: Mapping[str, Any]) -> Fault:
    """One of pydantic's errors, with the field that an `AtField` names."""
    return Fault((*problem["loc"], *named_field(problem)), message_of(problem))


def first_fault(error: ValidationError) -> Fault:
    """The first problem of a validation."""
    return fault_of(error.errors(include_url=False, include_input=False)[0])


def named_field(problem: Mapping[str, Any]) -> tuple[Part, ...]:
    """The path of an `AtField` below the location of the error; empty for other errors."""
    cause = problem.get("ctx", {}).get("error")
    return cause.path if isinstance(cause, AtField) else ()


def message_of(problem: Mapping[str, Any]) -> str:
    """The message of one of pydantic's errors, as the validator wrote it."""
    return str(problem["msg"]).removeprefix("Value error, ")
