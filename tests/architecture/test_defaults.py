"""The default of a field that is an object has the defaults of its type: an object that a client
gives in part is filled up from the type, so that other values would be lost with the first field
that is given."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from pydantic import BaseModel

from services import contracts


def default_objects() -> Iterator[tuple[str, BaseModel]]:
    """The fields of all wire types whose default is an object, and that object."""
    for module in pkgutil.walk_packages(contracts.__path__, f"{contracts.__name__}."):
        for name, kind in vars(import_module(module.name)).items():
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                for field, about in kind.model_fields.items():
                    default = about.get_default(call_default_factory=True, validated_data={})
                    if isinstance(default, BaseModel):
                        yield f"{name}.{field}", default


def test_a_default_object_has_the_defaults_of_its_type() -> None:
    found = dict(default_objects())
    other = [field for field, default in found.items() if default != type(default)()]

    assert len(found) > 20
    assert other == []
