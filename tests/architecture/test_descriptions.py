"""A field's description is shown alone, in the API's description, forms and editors: it says what
the field is without its name and without the sentences around it."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from services import contracts
from services.api.app import create_api
from services.api.settings import ApiSettings
from services.contracts.kinds import KINDS
from temper.submission.fields import fields_of

UNFINISHED = (
    " of what how where with only whose which that those this these it its they their in by at for "
    "from on to as than without behind between if when once until before after since over null "
    "why each every all any none exactly up also same others not empty one ones there sampled sees "
    "judges contains set killed decoded dropped leave take let tell continue "
)
"""First words that lean on a name or a sentence before them."""

LEANING = ("the same", "the finished", "the sampler's", "the learner's")
"""Beginnings whose noun is missing."""


def stands_alone(description: str) -> bool:
    first, *others = description.lower().split() or [""]
    begins_well = f" {first.strip('`,.:;')} " not in UNFINISHED
    return begins_well and len(others) > 0 and not description.lower().startswith(LEANING)


def described_fields() -> Iterator[tuple[str, str]]:
    """The fields of all wire types, and their descriptions."""
    for module in pkgutil.walk_packages(contracts.__path__, f"{contracts.__name__}."):
        for name, kind in vars(import_module(module.name)).items():
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                for field, about in kind.model_fields.items():
                    if about.description is not None and kind.__module__ == module.name:
                        yield f"{name}.{field}", about.description


def test_descriptions_of_fields_stand_alone() -> None:
    described = dict(described_fields())
    leaning = {field: text for field, text in described.items() if not stands_alone(text)}

    assert len(described) > 400
    assert leaning == {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_request_is_described(kind: str) -> None:
    request: type[BaseModel] = KINDS[kind].request
    fields = fields_of(request)

    assert [field.path for field in fields if not field.description] == []


def own_descriptions(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """What the JSON schema of a type says of each of its fields and of those of the types in it."""
    schema = model.model_json_schema()
    types: dict[str, Any] = {model.__name__: schema, **schema.get("$defs", {})}
    for name, of_type in types.items():
        for field, about in of_type.get("properties", {}).items():
            yield f"{name}.{field}", about.get("description", "")


@pytest.mark.parametrize("kind", KINDS)
def test_the_schemas_of_a_kind_describe_each_property(kind: str) -> None:
    described = {
        **dict(own_descriptions(KINDS[kind].request)),
        **dict(own_descriptions(KINDS[kind].resource)),
    }

    assert {field: text for field, text in described.items() if not stands_alone(text)} == {}


def test_the_api_describes_each_property(tmp_path: Path) -> None:
    schemas = create_api(ApiSettings(home=tmp_path)).app.openapi()["components"]["schemas"]
    described = {
        f"{name}.{field}": about.get("description", "")
        for name, of_type in schemas.items()
        for field, about in of_type.get("properties", {}).items()
    }

    assert len(described) > 1500
    assert {field: text for field, text in described.items() if not stands_alone(text)} == {}


@pytest.mark.parametrize(
    ("description", "alone"),
    [
        ("Of one answer.", False),
        ("Null: the default index.", False),
        ("Items.", False),
        ("", False),
        ("One that the operator allows.", False),
        ("Sampled ones, while rollouts were played.", False),
        ("Maximum tokens of one answer.", True),
        ("The source code.", True),
        ("Whether higher scores are better.", True),
    ],
)
def test_a_description_begins_with_a_noun_or_a_verb(description: str, alone: bool) -> None:
    assert stands_alone(description) == alone
