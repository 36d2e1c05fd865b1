"""Renders records as messages with a Jinja2 template from a YAML file."""

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated, Any

import yaml
from jinja2 import StrictUndefined, Template, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.base import JsonObject
from services.contracts.batches.prompt_batches import Prompting
from services.contracts.errors import InvalidRequest, TemperError
from services.contracts.validation import first_fault
from services.parsing.yaml_text import parse_yaml

PUBLISHED_VARIABLES = {"history": "history", "cargo_info": "货源信息", "query": "当前query"}
"""Variables of the published template by field; they hold for records with one of the two last
fields, unless variables are given."""

SHOWN_FIELDS = 50


class RenderFailed(TemperError):
    """A template could not be rendered for a record."""

    code = "render_failed"


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    role: str
    content: str


class _File(BaseModel):
    """The keys of a template file that are read; others are the user's own."""

    system_prompt: str | None = None
    messages: Annotated[list[_Message], Field(min_length=1)] | None = None
    vars: dict[str, str] = Field(default_factory=dict)


class PromptTemplate:
    """Renders the messages of a record.

    Every field of a record is a variable as it stands, null an empty text. Those that are named by
    ``vars`` or on the command line are JSON text with readable non-ASCII characters, ``null`` for a
    missing field. A dot on an object leads to its fields only.
    """

    def __init__(self, prompting: Prompting) -> None:
        """Raises InvalidRequest with the file and the reason if it is invalid."""
        path = prompting.template
        file = _read(path)
        self._variables = {**file.vars, **prompting.variables}
        messages: list[JsonObject]
        if file.messages is not None:
            messages = [message.model_dump() for message in file.messages]
        elif file.system_prompt is None:
            raise InvalidRequest(f"{path}: has neither system_prompt nor messages")
        elif prompting.template_as_system:
            messages = [{"role": "system", "content": file.system_prompt}]
        else:
            messages = [{"role": "user", "content": file.system_prompt}]
        self._fixed: list[JsonObject] = []
        if file.messages is None and not prompting.template_as_system:
            # As published: the template named system_prompt is what the user says.
            self._fixed = [{"role": "system", "content": prompting.system_text}]
        self._path = path
        self._messages = [(message, _compiled(message["content"], path)) for message in messages]
        self._needed = set().union(*(_needed(message["content"]) for message in messages))

    def check_fields(self, known: Set[str]) -> None:
        """Raise InvalidRequest for a field that the template needs and no record has; ``known`` are
        the fields of all records."""
        for name, field in self._variables.items():
            if field not in known:
                raise InvalidRequest(f"the variable {name}: no record has the field {field!r}")
        variables = {*self._variables, *self._named(dict.fromkeys(known))}
        for field in sorted(self._needed - variables - known):
            raise InvalidRequest(
                f"{self._path}: no record has the field {field!r}; the fields are "
                f"{', '.join(sorted(known)[:SHOWN_FIELDS])}"
            )

    def render(self, record: JsonObject) -> list[JsonObject]:
        """The messages of a record; raises RenderFailed."""
        variables = {**record, **self._named(record)}
        try:
            rendered = [
                {**message, "content": template.render(variables)}
                for message, template in self._messages
            ]
        except Exception as error:  # a template may raise whatever the values in it raise
            text = f"{type(error).__name__}: {error}"
            raise RenderFailed(text.encode(errors="replace").decode()) from error
        return [*self._fixed, *rendered]

    def _named(self, record: JsonObject) -> Mapping[str, str]:
        names = self._variables
        if not names and ("货源信息" in record or "当前query" in record):
            names = PUBLISHED_VARIABLES
        return {
            name: json.dumps(record.get(field), ensure_ascii=False) for name, field in names.items()
        }


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(parse_yaml(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        fault = first_fault(error)
        raise InvalidRequest(f"{path}: {fault.sentence('the file')}") from error


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up a field; methods of a dict, such as ``items``, would hide fields."""
        if isinstance(obj, dict):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


def _printable(value: Any) -> Any:
    if callable(value) and not isinstance(value, Undefined):
        raise TypeError(f"{getattr(value, '__name__', 'a function')} is a function, not a text")
    return "" if value is None else value


_ENVIRONMENT = _Environment(undefined=StrictUndefined, finalize=_printable)
_DEFAULTS = frozenset({"default", "d"})
_TESTS = frozenset({"defined", "undefined"})


def _needed(text: str) -> set[str]:
    """The variables of a template, without those that it takes to be optional."""
    tree = _ENVIRONMENT.parse(text)
    optional: set[str] = set()
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        asks = node.name in (_DEFAULTS if isinstance(node, nodes.Filter) else _TESTS)
        if asks and isinstance(node.node, nodes.Name):
            optional.add(node.node.name)
    return meta.find_undeclared_variables(tree) - optional


def _compiled(text: str, path: Path) -> Template:
    try:
        return _ENVIRONMENT.from_string(text)
    except TemplateSyntaxError as error:
        raise InvalidRequest(f"{path}: line {error.lineno} of a template: {error}") from error
