"""The public types of the Python client."""

import inspect
import typing
from collections.abc import Iterator

import pytest

from services.contracts.kinds import KINDS, Kind
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


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: str(kind.name))
def test_the_types_of_a_kind_can_be_imported(kind: Kind) -> None:
    for each in (kind.request, kind.resource):
        assert each.__name__ in types.__all__
        assert getattr(types, each.__name__) is each


def test_a_type_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ImportError):
        exec("from temper.types import CreateNothing")
