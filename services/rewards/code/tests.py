"""The tests of a row, in the shapes that published data sets have."""

import json
import secrets
from dataclasses import dataclass
from typing import Any

from services.contracts.sandbox import Language
from services.contracts.sandbox_cases import MAX_CASES, Case
from services.rewards.component import RewardFailed

# The test is read before the program begins, which finds standard input empty. Programs are run by
# the interpreter of the sandbox alone.
_RUNNER = """
def _main():
    import sys
    test = compile(sys.stdin.read(), "test", "exec")
    names = {{"__name__": "__main__"}}
    exec(compile({program}, "program", "exec"), names)
    exec(test, names)

_main()
"""


@dataclass(frozen=True)
class Tests:
    """Cases for the sandbox.

    ``token`` is what is printed last when a program went through its case to the end; null where
    its output is compared.
    """

    cases: list[Case]
    token: str | None = None

    def code(self, program: str) -> str:
        """What is run with each case."""
        return program if self.token is None else _RUNNER.format(program=repr(program))


def read_tests(value: Any, language: Language) -> Tests:
    """The tests that a field of a row holds; raises `RewardFailed` for what holds none."""
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, dict) and "inputs" in value and "outputs" in value:
        value = _paired(value["inputs"], value["outputs"])
    if not isinstance(value, list) or not value:
        raise RewardFailed("its tests are no list of cases")
    if len(value) > MAX_CASES:
        raise RewardFailed(f"it has {len(value)} tests; {MAX_CASES} are allowed")
    if all(isinstance(test, str) for test in value):
        return _pieces_of_code(value, language)
    return Tests([_case(test, position) for position, test in enumerate(value)])


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RewardFailed("its tests are a text that is not JSON") from None


def _paired(inputs: Any, outputs: Any) -> list[Any]:
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise RewardFailed("inputs and outputs of its tests are no lists of the same length")
    return [
        {"input": given, "output": wanted} for given, wanted in zip(inputs, outputs, strict=True)
    ]


def _case(test: Any, position: int) -> Case:
    if not isinstance(test, dict):
        raise RewardFailed(f"its test {position} is no object")
    given = test.get("stdin", test.get("input"))
    wanted = test.get("expected_output", test.get("output"))
    if not isinstance(given, str | None) or not isinstance(wanted, str):
        raise RewardFailed(f"its test {position} has no text as input, or none as output")
    return Case(stdin=given, expected_output=wanted)


def _pieces_of_code(pieces: list[str], language: Language) -> Tests:
    """Each is run behind the program, from standard input, and then prints a token.

    A program that ends early, or reads the input itself, does not come to that. One that looks
    through its own process for its judge can find it: what must withstand that compares outputs.
    """
    if language is not Language.PYTHON:
        raise RewardFailed(f"tests that are code are for Python, not for {language.value}")
    token = secrets.token_hex(16)
    cases = [Case(stdin=f"{piece}\nprint({token!r})") for piece in pieces]
    return Tests(cases, token)
