"""The public types of the Python client."""

import inspect
import typing
from collections.abc import Iterator

import pytest

from temper import Temper, types


def methods() -> Iterator[tuple[str, object]]:
    """The public methods of all resources."""
    with Temper() as client:
        resources = [each for name, each in vars(client).items() if not name.startswith("_")]
    for resource in resources:
        for name, method in inspect.getmembers(type(resource), inspect.isfunction):
            if not name.startswith("_"):
                yield f"{type(resource).__name__}.{name}", method


def test_every_type_that_the_client_names_can_be_imported() -> None:
    for name, method in methods():
        try:
            typing.get_type_hints(method, localns=vars(types))
        except NameError as error:
            pytest.fail(f"{name}: {error}")


def test_what_the_resources_of_kinds_create_can_be_imported() -> None:
    with Temper() as client:
        bases = [base for each in vars(client).values() for base in _bases(each)]

    names = {part.__forward_arg__ for base in bases for part in typing.get_args(base)}
    assert {"CreateFineTuningJob", "FineTuningJob", "CreateCampaign"} <= names
    assert names <= set(types.__all__)


def _bases(resource: object) -> tuple[object, ...]:
    return getattr(type(resource), "__orig_bases__", ())
