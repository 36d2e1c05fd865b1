"""The fields of a request, as a table made from its JSON schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter

Schema = Mapping[str, Any]

INDEX = "N"
"""Stands for the index of a list in a path."""
KEY = "KEY"
"""Stands for a name that the user chooses in a path."""
_BOUNDS = (
    ("minimum", ">= {}"),
    ("exclusiveMinimum", "> {}"),
    ("maximum", "<= {}"),
    ("exclusiveMaximum", "< {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} elements"),
    ("maxItems", "at most {} elements"),
    ("pattern", "matches {}"),
)


@dataclass(frozen=True)
class Field:
    """A field of a request.

    ``path`` has `INDEX` and `KEY` where a list or an object is entered. ``default`` is JSON, or
    None where there is none to show. ``when`` names the variants of an object that have the field,
    as in ``type=regex``; empty: all have it.
    """

    path: str
    type: str
    default: str | None
    bounds: str
    description: str
    required: bool
    when: str = ""

    @property
    def is_text(self) -> bool:
        """Whether every value other than null is a string."""
        return _is_text(self.type)

    @property
    def holds_text(self) -> bool:
        """Whether it is a list or an object of strings."""
        types = self.type.removesuffix(" or null")
        inner = types.removeprefix("list of ").removeprefix("object of ")
        return inner != types and _is_text(inner)


_NOT_TEXT = {"any", "boolean", "integer", "number", "object"}


def _is_text(name: str) -> bool:
    types = set(name.split(" or ")) - {"null"}
    return types.isdisjoint(_NOT_TEXT) and not any(" of " in each for each in types)


@cache
def fields_of(model: type[BaseModel]) -> tuple[Field, ...]:
    """Return all fields of a request's type, nested ones after the one that holds them.

    This takes long: `fields_below` describes one of them, `temper.submission.outline` their tops.
    """
    schema = model.model_json_schema()
    return tuple(_Reader(schema.get("$defs", {})).properties(schema, "", ()))


def first_fields(model: type[BaseModel]) -> tuple[Field, ...]:
    """Return the fields of a type without those inside them."""
    schema = model.model_json_schema()
    reader, required = _Reader(schema.get("$defs", {})), schema.get("required", ())
    return tuple(
        next(reader.field(name, inner, (), required=name in required))
        for name, inner in schema.get("properties", {}).items()
    )


@cache
def fields_below(model: type[BaseModel], name: str) -> tuple[Field, ...]:
    """Return a field of a request and those inside it, as `fields_of` does; none if there is no
    such field. The others are not described."""
    info = model.model_fields.get(name)
    if info is None:
        return ()
    described: Any = Annotated[info.annotation, info]
    schema = TypeAdapter(described).json_schema()
    reader = _Reader(schema.get("$defs", {}))
    return tuple(reader.field(name, schema, (), required=info.is_required()))


def is_text_at(model: type[BaseModel], path: Sequence[str | int]) -> bool:
    """Whether every value other than null at a path is a string."""
    fields = fields_below(model, str(path[0]))
    own = [field.is_text for field in fields if _leads_to(field, path)]
    above = [field.holds_text for field in fields if _leads_to(field, path[:-1])]
    return all(own) if own else bool(above) and all(above)


def _leads_to(field: Field, path: Sequence[str | int]) -> bool:
    names = field.path.split(".")
    return len(names) == len(path) and all(
        name == (INDEX if isinstance(part, int) else part) or name == KEY
        for name, part in zip(names, path, strict=True)
    )


@dataclass(frozen=True)
class _Variant:
    """One of the types that a value may have."""

    schema: Schema
    refs: tuple[str, ...]
    """The definitions that were entered; one that is entered again is not shown again."""
    chooser: str = ""
    """The field whose value says that it is this one; empty: it is told by its own fields."""
    value: str = ""


class _Reader:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def properties(self, schema: Schema, above: str, refs: tuple[str, ...]) -> Iterator[Field]:
        """Yield the fields of an object."""
        required = schema.get("required", ())
        for name, inner in schema["properties"].items():
            yield from self.field(f"{above}{name}", inner, refs, required=name in required)

    def field(
        self, path: str, schema: Schema, refs: tuple[str, ...], *, required: bool
    ) -> Iterator[Field]:
        """Yield a field, and those inside it."""
        variants = [
            each for each in self._variants(schema, refs) if each.schema.get("type") != "null"
        ]
        described = (schema, *(each.schema for each in variants if len(variants) == 1))
        yield Field(
            path,
            self._type(schema),
            json.dumps(schema["default"]) if schema.get("default") is not None else None,
            ", ".join(dict.fromkeys(filter(None, (_bounds(each.schema) for each in variants)))),
            next(
                (
                    " ".join(each["description"].split())
                    for each in described
                    if "description" in each
                ),
                "",
            ),
            required,
        )
        yield from self._inside(path, variants)

    def _inside(self, path: str, variants: list[_Variant]) -> Iterator[Field]:
        """Yield the fields of the objects that a value may be or hold; equal ones once."""
        if values := [each.value for each in variants if each.value]:
            chooser = f"{path}.{next(each.chooser for each in variants if each.value)}"
            yield Field(chooser, "|".join(values), None, "", "Which object it is.", required=True)
        found: dict[Field, list[str]] = {}
        for each in variants:
            for field in self._of_variant(path, each):
                own = f"{each.chooser}={each.value}" if each.value else field.when
                found.setdefault(replace(field, when=""), []).append(own)
        for field, when in found.items():
            yield replace(field, when=", ".join(dict.fromkeys(filter(None, when))))

    def _of_variant(self, path: str, variant: _Variant) -> Iterator[Field]:
        schema, refs = variant.schema, variant.refs
        if "properties" in schema and len(set(refs)) == len(refs):
            chooser = f"{path}.{variant.chooser}"
            for field in self.properties(schema, f"{path}.", refs):
                if field.path != chooser:
                    yield field
        for inner, name in ((schema.get("items"), INDEX), (_values(schema), KEY)):
            if inner:
                yield from self._inside(f"{path}.{name}", list(self._variants(inner, refs)))

    def _variants(self, schema: Schema, refs: tuple[str, ...]) -> Iterator[_Variant]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield from self._variants(self._definitions[name], (*refs, name))
            return
        options = schema.get("anyOf") or schema.get("oneOf")
        if options is None:
            yield _Variant(schema, refs)
            return
        discriminator = schema.get("discriminator", {})
        values = {ref: value for value, ref in discriminator.get("mapping", {}).items()}
        for option in options:
            for each in self._variants(option, refs):
                if value := values.get(option.get("$ref")):
                    yield replace(each, chooser=discriminator["propertyName"], value=value)
                else:
                    yield each

    def _type(self, schema: Schema) -> str:
        """The type in words, such as ``list of string or null``."""
        types = (self._own_type(each.schema) for each in self._variants(schema, ()))
        return " or ".join(dict.fromkeys(types))

    def _own_type(self, schema: Schema) -> str:
        if "const" in schema:
            return str(schema["const"])
        if "enum" in schema:
            return "|".join(map(str, schema["enum"]))
        if schema.get("type") == "array":
            return f"list of {_in_brackets(self._type(schema.get('items', {})))}"
        if schema.get("type") == "object" and (values := _values(schema)):
            return f"object of {_in_brackets(self._type(values))}"
        return str(schema.get("type", "any"))


def _in_brackets(name: str) -> str:
    return f"({name})" if " or " in name else name


def _values(schema: Schema) -> Schema | None:
    """The schema of an object's values, where the user chooses the names."""
    patterns = schema.get("patternProperties")
    values: Schema | bool | None = (
        next(iter(patterns.values())) if patterns else schema.get("additionalProperties")
    )
    return values if isinstance(values, Mapping) else None


def _bounds(schema: Schema) -> str:
    said = (text.format(schema[name]) for name, text in _BOUNDS if name in schema)
    return ", ".join(said)
