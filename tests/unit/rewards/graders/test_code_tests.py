"""Code rewards: which program is tested, with which tests, and what passes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from services.contracts.failures import InfrastructureCause
from services.contracts.sandbox.cases import Case
from services.contracts.sandbox.programs import Language
from services.core.operator_environment import OperatorEnvironment
from services.rewards.answers.programs import last_program
from services.rewards.code_tests import ProgramTests, function_name, read_tests
from services.rewards.interface import RewardFailed
from services.sandbox.runs.comparison import matches
from tests.support.rewards import failure, rewarded, score, trajectory
from tests.unit.inference.scripted_server import ScriptedServer, answer, running_server

CODE = {"type": "code_tests"}
CASES = [{"input": "1", "output": "2"}, {"stdin": "2", "expected_output": "3"}]
PROGRAM = "```python\nprint(int(input()) + 1)\n```"


@pytest.fixture
def sandbox() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


def at(sandbox: ScriptedServer, **fields: Any) -> OperatorEnvironment:
    return OperatorEnvironment(sandbox_url=sandbox.url.removesuffix("/v1"), **fields)


def ran(*statuses: str, **fields: Any) -> dict[str, Any]:
    cases = [{"status": status} for status in statuses]
    return {"status": "Failed", "passed": 0, "cases": cases, **fields}


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["```python\na\n```"], "a"),
        (["```\na\n\nb\n```\n"], "a\n\nb"),
        (["```py\na\n``` and\n```"], "a\n``` and"),  # a closing fence is on its own line
        (["```py\na\n```\ntext\n```c\nb\n  ```"], "a"),
        (["```py\na\n```\nRun it:\n```bash\npython a.py\n```\n```\n3\n```"], "a"),
        (["```py\na\n```\nUsage:\n```py\n>>> a\n3\n```"], "a"),
        (["```c\nb\n```"], "b"),
        (["```py\na\n```\n```py\nb"], "b"),  # cut off
        (["```py\na\n```\n```py\n"], "a"),
        (["```py\na\n```", "done"], "a"),
        (["```py\na\n```", "```\n3\n```"], "a"),
        (["a", "```"], None),
        ([], None),
    ],
)
def test_the_last_block_of_the_language_is_the_program(texts: list[str], code: str | None) -> None:
    assert last_program(texts, Language.PYTHON) == code


def test_a_block_that_only_uses_a_function_is_not_the_program() -> None:
    text = "```python\ndef f(): ...\n```\n```python\nprint(f())\n```"

    assert last_program([text], Language.PYTHON, defines=True) == "def f(): ..."
    assert last_program([text], Language.PYTHON) == "print(f())"


SOLUTION = "def add(a, b):\n    return a + b"
TESTS = [
    "def test_add():\n    assert add(1, 2) == 3\n\ntest_add()",
    "import unittest\n\nclass TestAdd(unittest.TestCase):\n    def test(self):\n        add(1, 2)",
    "assert add(1, 2) == 3\nprint('passed')",
    "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3",
    "import solution\nassert solution.add(1, 2) == 3\nprint(solution.add(2, 3))",
    "import solution\n\ndef test_add():\n    assert solution.add(1, 2) == 3",
    "import pytest\nimport adding as m\n\n@pytest.mark.parametrize('a', [1])\n"
    "def test_add(a):\n    assert m.add(a, 1) == 2",
    "import unittest\nimport solution\n\nclass TestAdd(unittest.TestCase):\n"
    "    def test(self):\n        self.assertEqual(solution.add(1, 2), 3)\n\n"
    "if __name__ == '__main__':\n    unittest.main()",
    "import subprocess\n\ndef test_main():\n    done = subprocess.run(['python', 'solution.py'],"
    " input='1 2', capture_output=True, text=True)\n    assert done.stdout.strip() == '3'\n\n"
    "test_main()\nprint('passed')",
    "assert 1 + 2 == 3",
]


@pytest.mark.parametrize("tests", TESTS)
@pytest.mark.parametrize("solution", [SOLUTION, "a, b = map(int, input().split())\nprint(a + b)"])
def test_a_block_that_only_tests_is_not_the_program(solution: str, tests: str) -> None:
    text = f"```python\n{solution}\n```\nYou can test it:\n```python\n{tests}\n```"
    for defines in (False, True):
        assert last_program([text], Language.PYTHON, defines=defines) == solution
    assert last_program([f"```python\n{tests}\n```"], Language.PYTHON) == tests


@pytest.mark.parametrize(
    "program",
    [
        "n = int(input())\nassert 1 <= n <= 10**18\nprint(n * (n - 1) // 2)",
        "def test(n):\n    return n\n\nprint(test(int(input())))",
        "def test_case():\n    print(input())\n\nfor _ in range(int(input())):\n    test_case()",
        "import sys\n\ndef tests():\n    return sys.stdin.read()\n\nprint(tests())",
        "rows = open(0).read().split()\nassert rows\nprint(len(rows))",
        "n = 5\nassert n > 0\nprint(n)",
        "import sys\nn = 5\nassert n > 0\nsys.stdout.write(str(n))",
        "import numpy as np\nrow = np.ones(3)\nassert row.any()\nprint(row.sum())",
        "def test(n):\n    assert n > 0\n    return 2 * n",
    ],
)
def test_a_program_that_asserts_or_is_named_as_a_test_is_no_test(program: str) -> None:
    text = f"Slow:\n```python\nprint(sum(range(int(input()))))\n```\n```python\n{program}\n```"
    assert last_program([text], Language.PYTHON) == program


@pytest.mark.parametrize(
    ("solution", "later"),
    [
        (SOLUTION, "def main():\n    print(add(1, 2))"),
        (f"class Solution:\n    {SOLUTION}", "class Runner:\n    pass"),
        ("add = lambda a, b: a + b", "def show():\n    print(add(1, 2))"),
        (f"class Pair: ...\n{SOLUTION}", f"{SOLUTION}  # without Pair"),
    ],
)
def test_the_block_that_defines_what_tests_need_is_the_program(solution: str, later: str) -> None:
    text = f"```python\n{solution}\n```\n```python\n{later}\n```"
    names = {"add", "Pair"} if "Pair" in solution else {"add"}
    assert last_program([text], Language.PYTHON, defines=True, names=names) == solution
    again = f"{text}\n```python\n{solution} # better\n```"
    assert last_program([again], Language.PYTHON, names=names) == f"{solution} # better"


@pytest.mark.parametrize(
    ("tests", "names"),
    [
        (["def check(candidate):\n    assert candidate(1) == 2\n\ncheck(add)"], {"add"}),
        (["import math\nassert math.isclose(add(1), Pair(2).x)"], {"add", "Pair"}),
        (["for x in range(3):\n    assert add(x) == [y for y in HELP]"], {"add"}),
        (["assert ("], set()),
        ({"fn_name": "add", "inputs": [[1]], "outputs": [2]}, {"add"}),
    ],
)
def test_tests_name_what_the_program_defines(tests: Any, names: set[str]) -> None:
    assert read_tests(tests, Language.PYTHON, setup="HELP = [1]").names == names


def test_a_program_within_reasoning_is_no_answer(sandbox: ScriptedServer) -> None:
    for text in (f"<think>{PROGRAM}", f"<think>{PROGRAM}</think>I do not know."):
        assert score(trajectory(text, extra={"tests": CASES}), CODE, at(sandbox)) == 0.0
    assert sandbox.requests == []


@pytest.mark.parametrize(
    "value",
    [
        CASES,
        {"inputs": ["1", "2"], "outputs": ["2", "3"]},
        '{"inputs": ["1", "2"], "outputs": ["2", "3"]}',
    ],
)
def test_tests_are_read_in_published_formats(value: Any) -> None:
    tests = read_tests(value, Language.CPP)

    assert [(case.stdin, case.expected_output) for case in tests.cases] == [("1", "2"), ("2", "3")]


@pytest.mark.parametrize(
    "value",
    [
        *("", "x", "[", 1, [], {}, [1], [CASES[0], "x"], [{"input": "1"}], [{"output": 1}]),
        *({"inputs": ["1"], "outputs": []}, {"inputs": 1, "outputs": 1}, [CASES[0]] * 1001),
        "[" * 100_000,
    ],
)
def test_a_value_without_tests_is_reported(value: Any) -> None:
    with pytest.raises(RewardFailed):
        read_tests(value, Language.PYTHON)


def test_assertion_tests_require_python() -> None:
    with pytest.raises(RewardFailed, match="Python"):
        read_tests(["assert f(1) == 2"], Language.CPP)


@pytest.mark.parametrize(("partial", "expected"), [(True, 0.5), (False, 0.0)])
def test_partial_credit_is_the_fraction_of_passed_tests(
    sandbox: ScriptedServer, partial: bool, expected: float
) -> None:
    sandbox.script = [answer(body=ran("Passed", "WrongOutput"))]
    sample = trajectory(PROGRAM, extra={"tests": CASES})
    reward = CODE | {"partial": partial, "run_timeout": 3, "memory_limit_mb": 99}

    assert score(sample, reward, at(sandbox, sandbox_api_key="sk-box")) == expected

    headers, body = sandbox.requests[0]
    assert headers["authorization"] == "Bearer sk-box"
    assert body["code"] == "print(int(input()) + 1)"
    assert (body["language"], body["run_timeout"], body["memory_limit_MB"]) == ("python", 3, 99)
    assert body["stop_on_first_failure"] is not partial


def test_text_without_a_program_passes_nothing(sandbox: ScriptedServer) -> None:
    assert score(trajectory("no", extra={"tests": CASES}), CODE, at(sandbox)) == 0.0
    assert sandbox.requests == []


def test_a_program_that_does_not_compile_passes_nothing(sandbox: ScriptedServer) -> None:
    sandbox.script = [answer(body=ran("NotRun", "NotRun"))]

    assert score(trajectory(PROGRAM, extra={"tests": CASES}), CODE, at(sandbox)) == 0.0


@pytest.mark.parametrize(
    "body",
    [
        ran("Passed", "SandboxError", message="no room"),
        ran("NotRun", "NotRun", status="SandboxError", message="no room"),
    ],
)
def test_a_sandbox_error_is_not_scored_as_a_wrong_program(
    sandbox: ScriptedServer, body: dict[str, Any]
) -> None:
    sandbox.script = [answer(body=body)]

    assert "no room" in failure(trajectory(PROGRAM, extra={"tests": CASES}), CODE, at(sandbox))


def test_a_malformed_sandbox_response_is_reported(sandbox: ScriptedServer) -> None:
    sandbox.script = [answer(body={"status": "fine"})]
    sample = trajectory(PROGRAM, extra={"tests": CASES})

    assert "cannot be read" in failure(sample, CODE, at(sandbox, attempts=1))


def test_a_row_without_tests_cannot_be_rewarded(sandbox: ScriptedServer) -> None:
    reason = failure(trajectory(PROGRAM), CODE | {"field": "cases"}, at(sandbox))

    assert "cases" in reason


CHECKED = CODE | {"checker": {"files": {"testlib.h": "int x;"}, "timeout": 3}}


def test_a_rows_checker_judges_outputs(sandbox: ScriptedServer) -> None:
    judged = [{"status": "Passed", "score": 1.0}, {"status": "WrongOutput", "score": 0.5}]
    sandbox.script = [answer(body=ran() | {"cases": judged})]
    sample = trajectory(PROGRAM, extra={"tests": CASES, "checker": "exit(0)"})

    assert score(sample, CHECKED, at(sandbox)) == 0.75

    sent = sandbox.requests[0][1]["checker"]
    assert (sent["code"], sent["language"], sent["run_timeout"]) == ("exit(0)", "python", 3)
    assert sent["arguments"] == ["input", "output", "answer"]
    assert sent["files"] == {"testlib.h": "aW50IHg7"}


def test_a_row_whose_checker_is_null_has_its_outputs_compared(sandbox: ScriptedServer) -> None:
    sandbox.script = [answer(body=ran("Passed", "Passed"))]
    sample = trajectory(PROGRAM, extra={"tests": CASES, "checker": None})

    assert score(sample, CHECKED, at(sandbox)) == 1.0
    assert sandbox.requests[0][1]["checker"] is None


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"tests": CASES}, "no field checker"),
        ({"tests": CASES, "checker": 1}, "not a text"),
        ({"tests": ["assert f()"], "checker": "exit(0)"}, "what programs print"),
    ],
)
def test_a_checker_that_cannot_be_used_is_reported(
    sandbox: ScriptedServer, extra: dict[str, Any], reason: str
) -> None:
    assert reason in failure(trajectory(PROGRAM, extra=extra), CHECKED, at(sandbox))


def test_a_checker_without_a_verdict_leaves_the_sample_out(sandbox: ScriptedServer) -> None:
    broken = {"status": "CheckerFailed", "message": "the checker failed: it exited with 3"}
    sandbox.script = [answer(body=ran() | {"cases": [{"status": "Passed"}, broken]})]
    sample = trajectory(PROGRAM, extra={"tests": CASES, "checker": "exit(3)"})

    judged = rewarded(sample, CHECKED, environment=at(sandbox))

    assert judged.reward is None
    assert judged.left_out is not None
    assert judged.left_out.cause is InfrastructureCause.SERVICE_ERROR
    assert "exited with 3" in judged.left_out.message


APPS = {"fn_name": "add", "inputs": [[1, 2], [[3], [4]]], "outputs": [3, [[3, 4]]]}
LIVECODEBENCH = [
    {"input": "1\n2", "output": "3", "testtype": "functional"},
    {"input": "[3]\n[4]", "output": "[3, 4]", "testtype": "functional"},
]
METADATA = {"metadata": '{"func_name": "add"}'}
SOLUTION = "class Solution:\n    def add(self, a, b):\n        return a + b"


def passes(program: str, tests: ProgramTests, tolerance: float = 0.0) -> list[bool]:
    """Whether each case passes, run and compared as the sandbox would."""
    code, runs = tests.code(program), []
    for case in tests.cases:
        command = [sys.executable, "-I", "-c", code]
        ran = subprocess.run(command, input=case.stdin, capture_output=True, check=False, text=True)
        accepted = [case.expected_output or "", *case.alternatives]
        told = ran.stdout.encode()
        is_right = any(matches(told, each, tests.match, tolerance) for each in accepted)
        runs.append(ran.returncode == 0 and is_right)
    return runs


@pytest.mark.parametrize("tests", [APPS, json.dumps(LIVECODEBENCH)])
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("def add(a, b):\n    return a + b", [True, True]),
        (SOLUTION, [True, True]),
        ("def add(a, b):\n    return (*a, *b) if isinstance(a, list) else 3", [True, True]),
        ("def add(a, b):\n    return 3", [True, False]),
        ("def other(a, b):\n    return a + b", [False, False]),
        ("print(3)", [False, False]),
    ],
)
def test_functional_tests_call_the_programs_function(
    tests: Any, program: str, expected: list[bool]
) -> None:
    read = read_tests(tests, Language.PYTHON, function_name(METADATA))
    assert passes(program, read) == expected


@pytest.mark.parametrize(
    ("tests", "metadata"),
    [
        ({**APPS, "fn_name": "a b"}, {}),
        ({**APPS, "inputs": [1, 2]}, {}),
        (LIVECODEBENCH, {}),
        (LIVECODEBENCH, {"metadata": "{"}),
        ([LIVECODEBENCH[0], {"input": "1", "output": "1"}], METADATA),
        ([{**LIVECODEBENCH[0], "input": "{"}], METADATA),
    ],
)
def test_invalid_functional_tests_are_an_error_of_the_row(
    tests: Any, metadata: dict[str, Any]
) -> None:
    with pytest.raises(RewardFailed):
        read_tests(tests, Language.PYTHON, function_name(metadata))


ADD = "def add(a, b):\n    return a + b\n"
SAME = "class Same:\n    def __eq__(self, other): return True\n    __hash__ = None\n"


@pytest.mark.parametrize(
    "program",
    [
        f"import sys\n{ADD}if __name__ == '__main__': sys.exit(main())",
        f"import unittest\n{ADD}if __name__ == '__main__': unittest.main()",
        f"{ADD}if __name__ == '__main__':\n    add(input(), exit())",
        f"import sys\n{ADD}if __name__ == '__main__': print(sys.argv[1])",
        f"print('.', end='')\n{ADD}",
        "import sys\ndef add(a, b):\n    sys.stdout.write('x')\n    return a + b",
        f"import atexit\n{ADD}atexit.register(print, 'bye')",
        f"import atexit\n{ADD}@atexit.register\ndef bye(): raise SystemExit(3)",
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        f"@dataclass\nclass A:\n    n: int\n{ADD}",
        "    return a + b",  # the body alone
    ],
)
def test_programs_run_as_published_judges_run_them(program: str) -> None:
    setup = 'import math\ndef add(a, b):\n    """The sum."""\n'
    tests = read_tests(["assert add(1, 2) == 3"], Language.PYTHON, setup=setup)

    assert passes(program, tests) == [True]


@pytest.mark.parametrize(
    "program",
    [
        f"{SAME}def add(a, b): return Same()",
        f"{SAME}def add(a, b): return [Same()]",
        "class Same(int):\n    def __eq__(self, other): return True\ndef add(a, b): return Same()",
        "def add(a, b): exit(0)",
        "import os\ndef add(a, b): os._exit(0)",
        f"{ADD}\nexit(0)",
        "print(3)",
    ],
)
def test_no_program_passes_without_the_right_value(program: str) -> None:
    assert passes(program, read_tests(["assert add(1, 2) == 3"], Language.PYTHON)) == [False]
    assert passes(program, read_tests(APPS, Language.PYTHON))[0] is False


def test_values_are_compared_as_json() -> None:
    one = {"fn_name": "f", "inputs": [[]], "outputs": [1]}
    values = ["1", "1.0", "True", "'1'", "1.0000001", "(1,)", "{1}", "None"]
    read = read_tests(one, Language.PYTHON)

    found = [passes(f"def f(): return {value}", read)[0] for value in values]

    assert found == [True, True, False, False, False, False, False, False]
    assert passes("def f(): return 1.0000001", read, tolerance=1e-6) == [True]


def test_functional_tests_have_the_published_imports() -> None:
    program = (
        "class Solution:\n    def add(self, a: List[int], b: Optional[int]) -> int:\n"
        "        assert sys.getrecursionlimit() == 50000 and gcd(4, 6) == 2 and pow(2, 3, 5) == 3\n"
        "        return a + b\n"
    )
    assert passes(program, read_tests(APPS, Language.PYTHON)) == [True, True]


def test_what_a_prompt_begins_with_is_run_before_the_program() -> None:
    setup = "from typing import List\n\ndef add(a: List[int], b):\n    'Adds.'\n"
    tests = read_tests(["assert add([1], [2]) == [1, 2]"], Language.PYTHON, setup=setup)

    assert passes("def add(a: List[int], b): return a + b", tests) == [True]
    assert passes("x = 1", tests) == [False]


def test_a_line_separator_within_an_argument_ends_no_line() -> None:
    case = {"input": '"a\u2028b"\n"c"', "output": '"a\u2028bc"', "testtype": "functional"}

    assert passes(ADD, read_tests([case], Language.PYTHON, "add")) == [True]


def test_inputs_and_outputs_may_be_lists_of_lines() -> None:
    tests = read_tests({"inputs": [["1", "2"]], "outputs": [["3", ""]]}, Language.CPP)

    assert tests.cases == [Case(stdin="1\n2", expected_output="3\n")]
