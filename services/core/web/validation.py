"""Messages for invalid requests, in terms of the request."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from services.contracts.base import ErrorDetail
from services.contracts.validation import Part, message_of, named_field

MAX_DETAILS = 20
MAX_COMPARED_CHARACTERS = 100


def describe_problems(error: RequestValidationError, body_type: object = None) -> ErrorDetail:
    """The first problem as message and param, and up to ``MAX_DETAILS`` of them as details.

    Misspelled fields come first, since other problems may follow from them (the intended field is
    missing). Then come those of an `AtField`: all else fits that member of a union. Suggestions are
    fields of ``body_type``, the annotation of the body.
    """
    found = error.errors()
    nearest = [_nearest_field(item, body_type) for item in found[:MAX_DETAILS]]
    problems = [
        _problem(item, error.body, meant)
        for item, meant in sorted(
            zip(found, nearest, strict=False),
            key=lambda pair: (pair[1] is None, not named_field(pair[0])),
        )
    ]
    first = problems[0]
    message = f"{first['param']}: {first['message']}" if first["param"] else first["message"]
    if len(found) > 1:
        message += f" (and {len(found) - 1} more)"
    return ErrorDetail(
        message=message,
        type="invalid_request_error",
        param=first["param"] or None,
        code="invalid_request",
        details=problems,
    )


def _problem(item: Mapping[str, Any], body: object, nearest: str | None) -> dict[str, str]:
    if item["type"] == "json_invalid":
        return {"param": "", "message": f"the body is not JSON: {item['ctx']['error']}"}
    if item["loc"] == ("body",) and not isinstance(body, dict):
        message = "send a JSON object, with Content-Type: application/json"
        return {"param": "", "message": message}
    message = message_of(item)
    if item["type"] == "extra_forbidden":
        hint = f"; did you mean {nearest}?" if nearest else ""
        message = f"is not a field of this request{hint}"
    param = _param(item["loc"], body, item["type"] == "missing", named_field(item))
    return {"param": param, "message": message}


def _param(
    location: Sequence[Part], body: object, is_missing: bool, named: Sequence[Part] = ()
) -> str:
    """Format a location for people: ``method.supervised.tags[0]``.

    pydantic's locations also name the union members that it tried. Parts that are not in the
    request are left out, except the name of a missing field and the field ``named`` by a validator
    of what is there.
    """
    source, *parts = location
    if source != "body":
        return ".".join(map(str, (*parts, *named)))
    text, value = "", body
    for place, part in enumerate(parts):
        if isinstance(value, list) and isinstance(part, int):
            text, value = f"{text}[{part}]", value[part]
        elif isinstance(value, dict) and part in value and not _is_tag(value, parts[place:]):
            text, value = f"{text}.{part}", value[part]
    if is_missing:
        text = f"{text}.{parts[-1]}"
    for part in named:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _is_tag(value: Mapping[str | int, object], parts: Sequence[str | int]) -> bool:
    """Whether the first part is the tag of a union's member, not the key of the same name: then the
    next one is a key of the same object."""
    tag, *inner = parts
    below = value[tag]
    is_below = isinstance(below, dict) and bool(inner) and inner[0] in below
    return value.get("type") == tag and bool(inner) and inner[0] in value and not is_below


def _nearest_field(item: Mapping[str, Any], body_type: object) -> str | None:
    """The known field that is closest to an unknown one."""
    source, *parents = item["loc"]
    if item["type"] != "extra_forbidden" or source != "body" or not parents:
        return None
    unknown = str(parents.pop())[:MAX_COMPARED_CHARACTERS]
    models = list(_models(body_type))
    for part in parents:
        models = _below(models, part)
    fields = {field.alias or name for model in models for name, field in model.model_fields.items()}
    return next(iter(difflib.get_close_matches(unknown, sorted(fields), n=1)), None)


def _below(models: list[type[BaseModel]], part: str | int) -> list[type[BaseModel]]:
    """The models that a part of a location leads to: a field's, or a union member."""
    fields = [
        field
        for model in models
        for name, field in model.model_fields.items()
        if part == (field.alias or name)
    ]
    if fields:
        return [model for field in fields for model in _models(field.annotation)]
    # pydantic names a member by class or tag; an index or key applies to all of them.
    return [model for model in models if part in _union_names(model)] or models


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """All models in an annotation, at any depth: ``list[A] | B``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _union_names(model: type[BaseModel]) -> set[object]:
    annotations = [field.annotation for field in model.model_fields.values()]
    tags = [get_args(each) for each in annotations if get_origin(each) is Literal]
    return {model.__name__, *(tag for values in tags for tag in values)}
