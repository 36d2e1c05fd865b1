"""The public types of the Python client."""

import inspect
import typing
from collections.abc import Iterator

from temper import Temper, types


def annotated(resource: object) -> Iterator[object]:
    """What the public methods of a resource take and return, down to the parts of generics."""
    for name, method in inspect.getmembers(type(resource), inspect.isfunction):
        if not name.startswith("_"):
            waiting = list(typing.get_type_hints(method, include_extras=False).values())
            while waiting:
                hint = waiting.pop()
                yield hint
                waiting += typing.get_args(hint)


def test_every_type_that_the_client_names_can_be_imported() -> None:
    with Temper() as client:
        resources = [each for name, each in vars(client).items() if not name.startswith("_")]
        named = {
            hint.__name__
            for resource in resources
            for hint in annotated(resource)
            if inspect.isclass(hint) and hint.__module__.startswith("services.contracts")
        }

    assert "CreateFineTuningJob" in types.__all__
    assert {name.partition("[")[0] for name in named} <= set(types.__all__)
