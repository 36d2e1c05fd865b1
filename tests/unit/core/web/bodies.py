"""Types that are read from a client, and bodies that they accept."""

import copy
import functools
import importlib
import pkgutil
import types
from collections.abc import Iterator
from enum import EnumType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fastapi.openapi.models import Example
from pydantic import BaseModel, TypeAdapter, ValidationError

import services.contracts
from services.api.examples import EVALUATION, MODEL, ROLLOUT
from services.api.responses.request import CreateResponse
from services.api.serving.request_body import InferenceBody
from services.contracts.base import Resource

TEXTS = ("a", "a.b", "http://127.0.0.1:9000/v1", "file-1", "a/b", "abcd" * 16, "(a)", "2026-01-01")
NUMBERS = (1, 2, 16, 0, 0.5, 3600)


def shown(examples: dict[str, Example]) -> dict[str, Any]:
    """The first example of the API's description."""
    (first, *_) = examples.values()
    return dict(first["value"] or {})


TEACHER = {"type": "model", "model": "base"}
BEGINNINGS: dict[str, dict[str, Any]] = {
    "CreateEvaluation": shown(EVALUATION),
    "CreateRollout": shown(ROLLOUT),
    "CreateExport": {"model": "a", "destination": "hf://owner/name"},
    "ExportModel": {"destination": "hf://owner/name"},
    "DistillationMethod": {"hyperparameters": {"teacher": TEACHER}},
    "RegisterModel": shown(MODEL),
}
"""What a type needs that its fields do not tell."""


def models() -> list[type[BaseModel]]:
    """Every type that is read from a client, of all rooms; not those that others extend."""
    for module in pkgutil.walk_packages(services.contracts.__path__, "services.contracts."):
        importlib.import_module(module.name)
    found = {
        model
        for model in _subclasses(BaseModel)
        if model.__module__.startswith("services.contracts.")
        and not issubclass(model, Resource)
        and not model.__subclasses__()
    }
    return sorted({*found, CreateResponse, InferenceBody}, key=lambda each: each.__qualname__)


def _subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _subclasses(each)


@functools.cache
def example(model: type[BaseModel]) -> dict[str, Any]:
    """A valid body with as many of the fields as go together; empty if none is found."""
    body: dict[str, Any] = copy.deepcopy(BEGINNINGS.get(model.__name__, {}))
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    others = [name for name in model.model_fields if name not in required]
    for name in [each for each in (*required, *others) if each not in body]:
        field = model.model_fields[name]
        annotation = functools.reduce(annotated, field.metadata, field.annotation)
        for value in values(annotation, field.examples or ()):
            candidate = {**body, name: value}
            if name in required[:-1] or is_valid(model, candidate):
                body = candidate
                break
    return body


def annotated(annotation: Any, metadata: Any) -> Any:
    """A type with one of the constraints of its field."""
    return Annotated[annotation, metadata]


def values(annotation: Any, examples: Any = ()) -> Iterator[Any]:
    """Values that a type accepts, where the type alone decides."""
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    for value in (*examples, *_candidates(annotation)):
        try:
            adapter.validate_python(copy.deepcopy(value))
        except ValidationError:
            continue
        yield value


def _candidates(annotation: Any) -> Iterator[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _candidates(arguments[0])
    elif origin in (Union, types.UnionType):
        for each in arguments:
            yield from _candidates(each)
    elif origin is Literal:
        yield from (getattr(each, "value", each) for each in arguments)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield copy.deepcopy(example(annotation))
    elif origin in (list, tuple, set, frozenset):
        parts = [next(values(each), "a") for each in arguments if each is not Ellipsis]
        yield from (parts, [0.5, 2.0], [])
    elif origin is dict:
        yield {next(values(arguments[0]), "a"): next(values(arguments[1]), "a")}
        yield {}
    elif isinstance(annotation, EnumType):
        members: list[Any] = list(annotation)
        yield from (each.value for each in members)
    else:
        yield from (*TEXTS, *NUMBERS, True, {"a": 1})


def is_valid(model: type[BaseModel], body: dict[str, Any]) -> bool:
    """Whether a model accepts a body."""
    try:
        model.model_validate(copy.deepcopy(body))
    except ValidationError:
        return False
    return True
