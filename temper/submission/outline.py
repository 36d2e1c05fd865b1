"""The top fields of a request, described without what is inside them.

Schemas of the nested types take longer to build than everything else that a command does.
"""

import inspect
from copy import copy
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from temper.submission.fields import Field, first_fields


def top_fields(model: type[BaseModel]) -> tuple[Field, ...]:
    """Return those fields of `fields_of` that are not inside others."""
    fields: dict[str, Any] = {
        name: (_shallow(info.annotation), _without_chooser(info))
        for name, info in model.model_fields.items()
    }
    return first_fields(create_model(model.__name__, **fields))


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
