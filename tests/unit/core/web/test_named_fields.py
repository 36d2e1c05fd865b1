"""An error about several fields names one that the body has."""

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from services.contracts.validation import fault_of, named_field
from services.sandbox.settings import SandboxSettings
from tests.unit.core.web.bodies import NUMBERS, TEXTS, annotated, example, is_valid, models, values

OTHERS: tuple[Any, ...] = (
    *NUMBERS,
    *TEXTS,
    0.6,
    1.0,
    5,
    -1,
    64,
    10**6,
    True,
    False,
    [],
    [0.0] * 5,
    [0, 0],
    {},
)
"""Values that a field of any type is given beside those of its type."""

MISSING = {
    ("CreateRollout", "tokenizer"),
    ("PromptBatch", "endpoints"),
    ("Method", "reinforcement"),
    ("Method", "ppo"),
    ("Method", "distillation"),
    ("PpoLoss", "extension"),
    ("ReinforcementHyperparameters", "advantage_extension"),
}
"""Fields that are named because a body lacks them, as pydantic names a required one."""


def least(model: type[BaseModel]) -> dict[str, Any]:
    """A valid body without any field that it can do without."""
    body = dict(example(model))
    for name in [*body, *body]:  # what another field needed may go after that one
        without = {other: value for other, value in body.items() if other != name}
        if is_valid(model, without):
            body = without
    return body


def bodies(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """The least body with one more field, or another value of one."""
    body = least(model)
    yield body
    for name, field in model.model_fields.items():
        annotation = functools.reduce(annotated, field.metadata, field.annotation)
        for value in (*values(annotation, OTHERS), *values(annotation)):
            yield {**copy.deepcopy(body), name: copy.deepcopy(value)}


def has(body: Any, path: Sequence[Any]) -> bool:
    """Whether a body has a value at a path."""
    for step in path:
        if not isinstance(body, dict | list) or (isinstance(body, dict) and step not in body):
            return False
        body = body[step]
    return body is not None


def named(model: type[BaseModel], body: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The fields that errors about several fields of a body name."""
    try:
        model.model_validate(copy.deepcopy(body))
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            if named_field(problem):
                yield fault_of(problem).location


@pytest.mark.parametrize("model", [*models(), SandboxSettings], ids=lambda each: each.__qualname__)
def test_a_field_that_an_error_names_is_one_that_is_given(model: type[BaseModel]) -> None:
    for body in bodies(model):
        for path in named(model, body):
            is_missing = (model.__name__, path[-1]) in MISSING
            assert has(body, path) or is_missing, (path, body)
