"""Rewards that run programs, with the real sandbox."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from benchmarks.parity import programs
from services.core.operator_environment import OperatorEnvironment
from tests.support.rewards import failure, rewarded, rewarded_all, score, trajectory
from tests.support.sandbox import running_sandbox
from tests.support.waiting import wait_for

CODE = {"type": "code_tests", "run_timeout": 60}
CASES = [{"input": "1\n", "output": "2"}, {"input": "41\n", "output": "42"}]
ASSERTS = ["assert add(1, 2) == 3", "assert add(0, 0) == 0\nassert add(-1, 1) == 0"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorEnvironment]:
    with running_sandbox(tmp_path_factory.mktemp("sandbox")) as sandbox:
        yield OperatorEnvironment(sandbox_url=sandbox.url)


def program(code: str, tests: Any = CASES) -> Any:
    return trajectory(f"So:\n```python\n{code}\n```\n", extra={"tests": tests})


def test_programs_are_scored_by_their_output(environment: OperatorEnvironment) -> None:
    size = "import os\nprint(int(os.read(0, os.fstat(0).st_size)) + 1.0)"
    codes = ["print(int(input()) + 1)", "print(2)", "print("]

    judged = rewarded_all([program(code) for code in [*codes, size]], CODE, environment=environment)

    assert [each.reward for each in judged] == [1.0, 0.5, 0.0, 1.0]


def test_values_of_functions_are_compared_outside_of_the_program(
    environment: OperatorEnvironment,
) -> None:
    tests = {"fn_name": "add", "inputs": [[1, 2], [2, 2]], "outputs": [3, [4]]}
    codes = [
        "class Solution:\n    def add(self, a: List[int], b):\n        return a + b",
        "class Any:\n    def __eq__(self, other): return True\ndef add(a, b): return Any()",
        "def add(a, b): return True",
    ]

    judged = rewarded_all([program(code, tests) for code in codes], CODE, environment=environment)

    assert [each.reward for each in judged] == [1.0, 0.0, 0.0]


@pytest.mark.drill
def test_an_endless_program_scores_zero(environment: OperatorEnvironment) -> None:
    def attempt() -> float | None:
        limited = CODE | {"run_timeout": 1}
        judged = rewarded(program("while True: pass"), limited, environment=environment)
        if judged.reward is None:  # on a busy machine
            assert "waited for a processor" in str(judged.reward_error)
        return judged.reward

    assert wait_for(attempt, "a run with a processor") == 0.0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def add(a, b):\n    return a + b", 1.0),
        ("def add(a, b):\n    return abs(a) + abs(b)", 0.5),
        ("import sys\nsys.exit(0)", 0.0),
        ("def add(a, b):\n    return a + b\nimport os\nos._exit(0)", 0.0),
        (
            "import sys\nprint(sys.stdin.read().split('print(')[-1].strip(\"')\"), flush=True)\n"
            "import os\nos._exit(0)",
            0.0,
        ),
        ("import sys\nsys.stdin.read()\ndef add(a, b):\n    return 0", 0.5),
        ("import sys\nprint('.')\ndef add(a, b):\n    return a + b\nprint(1, end='')", 1.0),
        (
            "import resource\nmost = resource.RLIM_INFINITY\n"
            "resource.setrlimit(resource.RLIMIT_STACK, (most, most))\n"
            "def add(a, b):\n    return a + b\nif __name__ == '__main__':\n    exit(1)",
            1.0,
        ),
        (
            "from __future__ import annotations\ndef add(a, b):\n    print('x')\n    return a + b",
            1.0,
        ),
    ],
)
def test_code_tests_must_run_to_the_end(
    environment: OperatorEnvironment, code: str, expected: float
) -> None:
    assert score(program(code, ASSERTS), CODE, environment) == expected


def grader(source: str) -> dict[str, Any]:
    return {"type": "python", "name": "p", "source": source}


def test_a_python_grader_reads_the_sample_and_the_row(environment: OperatorEnvironment) -> None:
    source = (
        "import json\n"
        "print('noise')\n"
        "def grade(sample: dict, item: dict) -> float:\n"
        "    assert sample['output_json'] == {'n': 3}\n"
        "    return len(sample['output_text']) + item['bonus'] + (item['gold'] == '4')\n"
    )
    sample = trajectory('{"n": 3}', extra={"bonus": 0.5})

    assert score(sample, grader(source), environment) == 9.5


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no taste')", "no taste"),
        ("return 'good'", "good"),
        ("return float('nan')", "NaN"),
        ("import os; os._exit(0)", "ended early"),
    ],
)
def test_a_grader_without_a_score_is_reported(
    environment: OperatorEnvironment, body: str, message: str
) -> None:
    source = f"def grade(sample, item):\n    {body}\n"

    assert message in failure(trajectory("x"), grader(source), environment)


@pytest.mark.drill
def test_generated_programs_have_their_verdicts(environment: OperatorEnvironment) -> None:
    """A sample of those that ``python -m benchmarks.parity`` compares without a sandbox."""
    source = random.Random(3)
    right = source.sample(list(programs.forms(source)), 8)
    forms = [*right, *islice(programs.near_misses(source), 16)]
    rows = [trajectory(form.text, extra={"tests": form.gold}) for form in forms]

    judged = rewarded_all(rows, CODE | {"partial": False}, environment=environment)

    assert [each.reward for each in judged] == [float(form.is_right) for form in forms]
