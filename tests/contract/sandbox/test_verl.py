"""verl's reward code and its tool class, unmodified, against the running service."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.testing.verl import has_verl, verl_folder
from tests.contract.sandbox.verl_modules import verl_importable

SCHEMA = {
    "type": "function",
    "function": {
        "name": "code_interpreter",
        "description": "Runs code.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The code."}},
            "required": ["code"],
        },
    },
}
SUMS = {"inputs": ["1 2\n", "30 4\n"], "outputs": ["3\n", "34"]}
ADD = "a, b = map(int, input().split())\nprint(a + b)"

Import = Callable[[str], Any]


@pytest.fixture(scope="module")
def verl() -> Iterator[Import]:
    if not has_verl():
        pytest.skip("verl has not been fetched; `make dev` says why")
    with verl_importable(verl_folder()) as load:
        yield load


@pytest.fixture
def compute_score(verl: Import, sandbox: str) -> Callable[..., tuple[float, list[Any]]]:
    """The reward of a completion, called as verl's configuration does."""
    function = verl("utils.reward_score.sandbox_fusion").compute_score

    def score(
        code: str, test_cases: dict[str, Any], memory: int | None = 1024, **named: Any
    ) -> tuple[float, list[Any]]:
        completion = f"Let me think.\n```python\n{code}\n```\n"
        slots = threading.Semaphore(64)
        return function(  # type: ignore[no-any-return]  # verl has no types
            f"{sandbox}/run_code", slots, memory, completion, json.dumps(test_cases), **named
        )

    return score


def test_a_correct_program_gets_the_full_reward(compute_score: Callable[..., Any]) -> None:
    score, cases = compute_score(ADD, SUMS)

    assert score == 1.0
    assert [case["status"] for case in cases] == ["success", "success"]
    assert [case["stdout"] for case in cases] == ["3\n", "34\n"]


def test_each_case_is_judged_separately(compute_score: Callable[..., Any]) -> None:
    code = "a, b = map(int, input().split())\nprint(a + b if a == 1 else a // (b - 4))"
    cases = {"inputs": ["1 2", "1 1", "5 4"], "outputs": ["3", "7", "9"]}

    score, metadata = compute_score(code, cases)

    assert score == pytest.approx(1 / 3)
    assert [case["status"] for case in metadata] == ["success", "wrong_answer", "runtime_error"]
    assert "ZeroDivisionError" in metadata[2]["stderr"]
    assert metadata[2]["exit_code"] == 1


def test_an_endless_program_times_out(compute_score: Callable[..., Any]) -> None:
    code = "print('begun', flush=True)\nwhile True: pass"

    for seconds in (1, 5, 30):
        score, (case,) = compute_score(code, {"inputs": [""], "outputs": [""]}, timeout=seconds)
        if case["stdout"]:
            break  # otherwise a busy machine used up the time limit to start it

    assert score == 0.0
    assert (case["status"], case["exit_code"], case["stdout"]) == ("timeout", None, "begun\n")


def test_functions_are_called_with_their_cases_arguments(
    compute_score: Callable[..., Any],
) -> None:
    code = "class Solution:\n    def both(self, a, b):\n        return [a + b]"
    cases = {"inputs": ["1\n2"], "outputs": ["[3]"], "fn_name": "both"}

    score, (case,) = compute_score(code, cases)

    assert (score, case["status"]) == (1.0, "success"), case


def test_assertion_cases_are_judged_by_exit_status(compute_score: Callable[..., Any]) -> None:
    asserts = ["assert double(2) == 4", "assert double(2) == 5"]

    score, cases = compute_score("def double(x):\n    return 2 * x", {"assert_case": asserts})

    assert score == 0.5
    assert [case["status"] for case in cases] == ["success", "runtime_error"]


def test_a_reward_without_a_memory_limit_is_computed(compute_score: Callable[..., Any]) -> None:
    score, _ = compute_score(ADD, SUMS, memory=None)

    assert score == 1.0


def test_more_cases_than_slots_are_handled(compute_score: Callable[..., Any]) -> None:
    numbers = range(100)
    cases = {"inputs": [f"{n} 1" for n in numbers], "outputs": [f"{n + 1}" for n in numbers]}

    score, metadata = compute_score(ADD, cases)

    assert score == 1.0, {case["status"] for case in metadata}


@pytest.mark.long
def test_a_hundred_programs_that_time_out_are_each_reported(verl: Import, sandbox: str) -> None:
    check = verl("utils.reward_score.sandbox_fusion.utils").check_correctness
    cases = {"inputs": [""] * 100, "outputs": [""] * 100}

    results, metadata = check(f"{sandbox}/run_code", cases, "while True: pass", timeout=10)

    assert results == [-3] * 100, {case["status"] for case in metadata}


@pytest.mark.parametrize(
    ("code", "expected", "status"),
    [
        ('#include <iostream>\nint main() { std::cout << "3"; }', True, "success"),
        ("int main() { return x; }", -4, "compile_error"),
    ],
)
def test_compile_failures_are_distinguished(
    verl: Import,
    sandbox: str,
    needs_language: Callable[[str], None],
    code: str,
    expected: Any,
    status: str,
) -> None:
    needs_language("cpp")
    check = verl("utils.reward_score.sandbox_fusion.utils").check_correctness

    results, (case,) = check(
        f"{sandbox}/run_code", {"inputs": [""], "outputs": ["3"]}, code, timeout=60, language="cpp"
    )

    assert (results, case["status"]) == ([expected], status), case
    if status == "compile_error":
        assert "was not declared in this scope" in case["compile_stderr"]


@pytest.fixture
def tool(verl: Import, sandbox: str) -> Any:
    schema = verl("tools.schemas").OpenAIFunctionToolSchema.model_validate(SCHEMA)
    config = {"sandbox_fusion_url": f"{sandbox}/run_code", "num_workers": 128, "rate_limit": 128}
    return verl("tools.sandbox_fusion_tools").SandboxFusionTool(config, schema)


def _call_tool(tool: Any, **parameters: Any) -> str:
    async def call() -> str:
        instance, _ = await tool.create()
        response, _, _ = await tool.execute(instance, parameters)
        await tool.release(instance)
        return str(response.text)

    return asyncio.run(call())


def test_verl_tool_returns_both_streams(tool: Any) -> None:
    code = "import sys\nprint('é out')\nprint('err', file=sys.stderr)"

    assert _call_tool(tool, code=code) == "é out\nerr\n"


def test_verl_tool_returns_the_traceback(tool: Any) -> None:
    text = _call_tool(tool, code="print('before')\n[][1]")

    assert text.startswith("before\nTraceback (most recent call last):\n")
    assert text.endswith("IndexError: list index out of range\n")


def test_verl_tool_reports_no_output_after_a_timeout(tool: Any) -> None:
    assert _call_tool(tool, code="while True: pass", timeout=1) == "no stdout here"


def test_concurrent_tool_calls_get_their_own_results(tool: Any) -> None:
    async def call_concurrently() -> list[str]:
        calls = [tool.execute("same", {"code": f"print({number})"}) for number in range(64)]
        return [response.text for response, _, _ in await asyncio.gather(*calls)]

    assert asyncio.run(call_concurrently()) == [f"{number}\n" for number in range(64)]
