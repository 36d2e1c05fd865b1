"""The sections of run files that others publish."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from services.contracts.errors import InvalidRequest

Section = Mapping[str, Any]
Settings = TypeVar("Settings", bound=BaseModel)

_TAKEN_FROM_ELSEWHERE = ("${", "???")
"""How a value begins that OmegaConf fills in."""


def section_of(settings: Section, *names: str) -> Section:
    """A section within others; empty where there is none. Raises InvalidRequest."""
    for position, name in enumerate(names, start=1):
        value = given(settings, name)
        if value is not None and not isinstance(value, Mapping):
            key = ".".join(names[:position])
            raise InvalidRequest(f"{key} is no section of settings", param=key)
        settings = value or {}
    return settings


def given(section: Section, name: str) -> Any:
    """A value; null where it is missing or left to something else, as in ``${data.n}``."""
    value = section.get(name)
    left_open = isinstance(value, str) and value.startswith(_TAKEN_FROM_ELSEWHERE)
    return None if left_open else value


def read_section(kind: type[Settings], section: Section, place: str) -> Settings:
    """The settings of ``kind`` among those of a section. Raises InvalidRequest that names the key
    with its ``place``."""
    values = {name: given(section, name) for name in kind.model_fields}
    try:
        return kind.model_validate({name: v for name, v in values.items() if v is not None})
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(filter(None, [place, *map(str, problem["loc"])]))
        raise InvalidRequest(f"{key}: {problem['msg']}", param=key) from None
