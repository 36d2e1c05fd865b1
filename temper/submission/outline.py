"""Some fields of a request, described without what is inside them.

Schemas of the nested types take longer to build than everything else that a command does.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from temper.submission.fields import Field, first_fields


def top_fields(model: type[BaseModel]) -> tuple[Field, ...]:
    """Return those fields of `fields_of` that are not inside others."""
    return _described(model.model_fields)


def fields_at(model: type[BaseModel], paths: Iterable[str]) -> dict[str, Field]:
    """Return the fields at paths without indexes and keys; raises `KeyError`.

    Of objects that may be of several types, the first one with such a field has it.
    """
    asked = {path: _info_at(model, path) for path in paths}
    found = _described({f"field_{number}": info for number, info in enumerate(asked.values())})
    return {path: replace(field, path=path) for path, field in zip(asked, found, strict=True)}


def _info_at(model: type[BaseModel], path: str) -> FieldInfo:
    info = FieldInfo(annotation=model)
    for name in path.split("."):
        owner = next(_models_with(name, info.annotation), None)
        if owner is None:
            raise KeyError(f"{model.__name__} has no field {path}")
        info = owner.model_fields[name]
    return info


def _models_with(name: str, annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models within a type that have a field."""
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    if is_model and name in annotation.model_fields:
        yield annotation
    for inner in get_args(annotation):
        yield from _models_with(name, inner)


def _described(fields: Mapping[str, FieldInfo]) -> tuple[Field, ...]:
    shallow: dict[str, Any] = {
        name: (_shallow(info.annotation), _without_chooser(info)) for name, info in fields.items()
    }
    return first_fields(create_model("Fields", **shallow))


def _shallow(annotation: Any) -> Any:
    """The type with any object in the place of each model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        described = {"type": "object", "description": inspect.cleandoc(annotation.__doc__ or "")}
        return Annotated[Any, WithJsonSchema(described)]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        marks = [_without_chooser(each) for each in inner[1:]]
        return Annotated[(_shallow(inner[0]), *marks)]
    if origin in {Union, UnionType}:
        return Union[tuple(map(_shallow, inner))]  # noqa: UP007 - of a number that is not known
    if origin in {list, dict}:
        return origin[tuple(map(_shallow, inner))]
    return annotation


def _without_chooser(mark: Any) -> Any:
    """A mark of a type that does not ask which of several models an object is."""
    if not isinstance(mark, FieldInfo) or mark.discriminator is None:
        return mark
    free = copy(mark)
    free.discriminator = None
    free._attributes_set.pop("discriminator", None)
    return free
