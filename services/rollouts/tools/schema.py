"""Tool schemas, and the validation of arguments against them.

Schemas come from clients and arguments from models: matching fetches nothing, and patterns are
RE2's, which match in linear time.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import re2
import referencing
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from pydantic import Field, StrictBool
from pydantic import ValidationError as PydanticError
from referencing.exceptions import Unresolvable

from services.contracts.base import JsonObject, Resource
from services.contracts.errors import InvalidRequest
from services.contracts.validation import first_fault
from services.rollouts.tools.base import bad_arguments

LARGEST_SCHEMA = 65_536
DEEPEST_SCHEMA = 32
CALLED = r"^[\w.-]{1,64}$"
EMPTY: JsonObject = {"type": "object", "properties": {}}


class _Function(Resource):
    name: str = Field(pattern=CALLED)
    description: str = ""
    parameters: JsonObject = Field(default_factory=lambda: dict(EMPTY))
    strict: StrictBool | None = None


class _Schema(Resource):
    type: str = Field(default="function", pattern="^function$")
    function: _Function


def checked_schema(schema: JsonObject, param: str) -> JsonObject:
    """A tool's schema as shown to the model, with published misspellings corrected.

    Raises `InvalidRequest` naming the field at fault.
    """
    if "function" not in schema and "name" in schema:  # the flat form of OpenAI's Responses API
        flat = {key: value for key, value in schema.items() if key != "type"}
        schema = {"type": schema.get("type", "function"), "function": flat}
    if len(json.dumps(schema)) > LARGEST_SCHEMA:
        raise InvalidRequest(f"is larger than {LARGEST_SCHEMA} bytes", param=param)
    try:
        read = _Schema.model_validate(schema)
    except PydanticError as error:
        fault = first_fault(error)
        where = f"{param}.{fault.field}" if fault.field else param
        raise InvalidRequest(fault.message, param=where) from None
    parameters = f"{param}.function.parameters"
    function = read.function.model_dump(exclude_none=True)
    function["parameters"] = _with_items(read.function.parameters, parameters, 0)
    _check_parameters(function["parameters"], parameters)
    return {"type": "function", "function": function}


def argument_check(parameters: JsonObject) -> Callable[[JsonObject], None]:
    """A function that raises `ToolError` for arguments that do not match ``parameters``."""
    validator = _validator(parameters)

    def check(arguments: JsonObject) -> None:
        try:
            problem = best_match(validator.iter_errors(arguments))
        except (Unresolvable, RecursionError) as error:
            raise bad_arguments(f"the tool's schema cannot be applied: {error}") from error
        if problem is not None:
            raise bad_arguments(_described(problem))

    return check


def _described(problem: ValidationError) -> str:
    where = problem.json_path.removeprefix("$").removeprefix(".")
    return f"argument {where}: {problem.message[:300]}" if where else problem.message[:300]


def _with_items(node: Any, param: str, depth: int) -> Any:
    """Correct ``item`` to ``items`` in arrays, a misspelling of a published file."""
    if depth > DEEPEST_SCHEMA:
        raise InvalidRequest(f"is nested deeper than {DEEPEST_SCHEMA} levels", param=param)
    if isinstance(node, list):
        return [_with_items(part, param, depth + 1) for part in node]
    if not isinstance(node, dict):
        return node
    fixed = {key: _with_items(part, param, depth + 1) for key, part in node.items()}
    if fixed.get("type") == "array" and "item" in fixed and "items" not in fixed:
        fixed = {("items" if key == "item" else key): part for key, part in fixed.items()}
    return fixed


def _check_parameters(parameters: JsonObject, param: str) -> None:
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        message = f"is not a JSON schema: {error.message[:300]}"
        raise InvalidRequest(message, param=param) from None
    for node in _nodes(parameters):
        for keyword in ("$ref", "$dynamicRef"):
            target = node.get(keyword)
            if isinstance(target, str) and not target.startswith("#"):
                raise InvalidRequest(f"refers to {target[:100]!r} outside itself", param=param)
        if "patternProperties" in node:  # matched with Python's re, in unbounded time
            raise InvalidRequest("patternProperties is not supported", param=param)
        pattern = node.get("pattern")
        if isinstance(pattern, str) and not _compiles(pattern):
            message = f"has a pattern that RE2 does not support: {pattern[:100]!r}"
            raise InvalidRequest(message, param=param)


def _nodes(node: Any) -> Iterator[JsonObject]:
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node:
        if isinstance(part, dict | list):
            yield from _nodes(part)


def _options() -> "re2.Options":
    options = re2.Options()
    options.log_errors = False
    return options


def _compiles(pattern: str) -> bool:
    try:
        re2.compile(pattern, _options())
    except re2.error:
        return False
    return True


def _pattern(_: Validator, pattern: str, text: Any, __: JsonObject) -> Iterator[ValidationError]:
    if isinstance(text, str):
        # A model's text may contain surrogates.
        sanitize = text.encode("utf-8", "replace").decode()
        if re2.compile(pattern, _options()).search(sanitize) is None:
            yield ValidationError(f"{text!r} does not match {pattern!r}")


_Linear = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]  # jsonschema's is untyped


def _validator(parameters: JsonObject) -> Validator:
    registry: referencing.Registry[Any] = referencing.Registry()
    validator: Validator = _Linear(parameters, registry=registry)
    return validator
