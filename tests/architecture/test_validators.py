"""A validator over several fields says which of them its error is about."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import services

CONTRACTS = Path(services.__path__[0]) / "contracts"
Function = ast.FunctionDef


def functions(source: str) -> Iterator[Function]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, Function))


def called(node: ast.AST) -> str:
    """The last name of what is called or decorates: ``model_validator``, ``check`` of self.check"""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_model_level(function: Function) -> bool:
    return "model_validator" in map(called, function.decorator_list)


def bare_errors(sources: list[str]) -> list[str]:
    """Functions that raise a ValueError without a field in a validator of a model, or are called by
    one, at any depth."""
    known: dict[str, list[Function]] = {}
    for source in sources:
        for function in functions(source):
            known.setdefault(function.name, []).append(function)
    waiting = [each for named in known.values() for each in named if is_model_level(each)]
    reached: list[Function] = []
    while waiting:
        function = waiting.pop()
        if function not in reached:
            reached.append(function)
            calls = (called(node) for node in ast.walk(function) if isinstance(node, ast.Call))
            waiting += [each for name in calls for each in known.get(name, [])]
    return sorted(
        function.name
        for function in reached
        for node in ast.walk(function)
        if isinstance(node, ast.Raise) and node.exc and called(node.exc) == "ValueError"
    )


def test_validators_of_models_name_the_field_at_fault() -> None:
    sources = [path.read_text() for path in CONTRACTS.rglob("*.py")]

    assert sum(is_model_level(each) for source in sources for each in functions(source)) > 45
    assert bare_errors(sources) == []


@pytest.mark.parametrize(
    "body", ["raise ValueError('a')", "check(self)", "self.check()", "return [check(self)]"]
)
def test_an_error_without_a_field_is_found(body: str) -> None:
    model = f"class A:\n @model_validator(mode='after')\n def _a(self):\n  {body}\n"
    helper = "def check(a):\n if a:\n  raise ValueError\n"

    assert bare_errors([model, helper]) == ["_a" if "raise" in body else "check"]
    assert bare_errors([model.replace("model_", "field_"), helper]) == []
