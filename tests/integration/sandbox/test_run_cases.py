"""One program against many inputs."""

from typing import Any

import pytest

from tests.support.sandbox import TIME_LIMITS, Sandbox
from tests.support.time_limits import with_enough_time

SUM = "print(sum(map(int, input().split())))"
CPP_SUM = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"


def run_cases(sandbox: Sandbox, code: str, *cases: tuple[str, str | None], **fields: Any) -> Any:
    body = {
        "language": "python",
        "code": code,
        "cases": [{"stdin": stdin, "expected_output": output} for stdin, output in cases],
        **TIME_LIMITS,
        **fields,
    }
    answer = sandbox.http.post("/v1/run_cases", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def statuses(answer: Any) -> list[str]:
    return [case["status"] for case in answer["cases"]]


def test_cases_have_results_in_order(sandbox: Sandbox) -> None:
    answer = run_cases(sandbox, SUM, ("1 2", "3"), ("1 2", "4"), ("x", "3"), ("2 2", None))

    assert statuses(answer) == ["Passed", "WrongOutput", "Failed", "Passed"]
    assert [case["matched"] for case in answer["cases"]] == [True, False, False, None]
    assert [case["run_result"]["stdout"] for case in answer["cases"]] == ["3\n", "3\n", "", "4\n"]
    assert (answer["status"], answer["passed"], answer["message"]) == ("Failed", 2, "")


def test_all_cases_passing_is_a_success(sandbox: Sandbox) -> None:
    cases = [(f"{n} {n}", str(2 * n)) for n in range(40)]

    answer = run_cases(sandbox, SUM, *cases)

    assert (answer["status"], answer["passed"]) == ("Success", 40)
    assert all(case["run_result"]["cpu_time"] > 0 for case in answer["cases"])


@pytest.mark.parametrize(("match", "status"), [("lines", "Passed"), ("exact", "WrongOutput")])
def test_the_match_rule_can_be_chosen(sandbox: Sandbox, match: str, status: str) -> None:
    assert statuses(run_cases(sandbox, "print(1)", ("", "1"), match=match)) == [status]


def test_the_code_is_compiled_once(sandbox: Sandbox) -> None:
    answer = run_cases(sandbox, CPP_SUM, ("1 2", "3"), ("5 6", "11"), language="cpp")

    assert answer["compile_result"]["return_code"] == 0
    assert statuses(answer) == ["Passed", "Passed"]


def test_cases_are_not_run_if_the_compilation_fails(sandbox: Sandbox) -> None:
    answer = run_cases(sandbox, "int main() {", ("", ""), ("", ""), language="cpp")

    assert (answer["status"], answer["passed"]) == ("Failed", 0)
    assert statuses(answer) == ["NotRun", "NotRun"]
    assert answer["compile_result"]["return_code"] != 0


def test_each_case_has_its_own_time_limit(sandbox: Sandbox) -> None:
    code = "import time; n = float(input()); time.sleep(n); print(n)"
    cases = [("0", "0.0"), ("1000", "1000.0")]
    answer = with_enough_time(
        lambda seconds: run_cases(sandbox, code, *cases, run_timeout=seconds),
        lambda answer: statuses(answer)[0] == "Passed",
    )

    assert statuses(answer) == ["Passed", "Failed"]
    assert answer["cases"][1]["run_result"]["status"] == "TimeLimitExceeded"
    assert answer["cases"][1]["matched"] is None


def test_stop_on_first_failure_marks_later_cases_not_run(sandbox: Sandbox) -> None:
    code = "import time\nn = int(input())\nif n == 3: 1 / 0\nif n > 3: time.sleep(1000)\nprint(n)"
    cases = [(str(n), str(n)) for n in range(12)]

    answer = run_cases(sandbox, code, *cases, stop_on_first_failure=True, run_timeout=200)

    assert statuses(answer) == ["Passed"] * 3 + ["Failed"] + ["NotRun"] * 8
    assert all(case["run_result"] is None for case in answer["cases"][4:])


def test_the_first_failing_case_in_order_counts(sandbox: Sandbox) -> None:
    code = "import time\nn = int(input())\nif n == 1: time.sleep(0.5)\nassert n not in (1, 2)"
    cases = [(str(n), None) for n in range(4)]

    answer = run_cases(sandbox, code, *cases, stop_on_first_failure=True)

    assert statuses(answer) == ["Passed", "Failed", "NotRun", "NotRun"]


def test_large_outputs_are_matched_in_full_and_returned_truncated(sandbox: Sandbox) -> None:
    code = "print('x' * int(input()))"
    size = 1 << 20
    cases = [(str(size), "x" * size)] * 50

    answer = run_cases(sandbox, code, *cases)

    assert answer["passed"] == 50
    results = [case["run_result"] for case in answer["cases"]]
    assert all(result["stdout_truncated"] for result in results)
    assert 0 < sum(len(result["stdout"]) for result in results) < 40 << 20


def test_an_output_of_any_size_is_matched_in_full(sandbox: Sandbox) -> None:
    right = "x" * 9_000_000  # more than what is kept of other outputs

    answer = run_cases(sandbox, f"print('x' * {len(right)})", ("", right), ("", right[:-1] + "y"))

    assert statuses(answer) == ["Passed", "WrongOutput"]


def test_an_output_that_is_too_long_for_a_checker_is_wrong(sandbox: Sandbox) -> None:
    checker = {"code": "raise ValueError('it ran')"}

    answer = run_cases(sandbox, "print('x' * 9_000_000)", ("", "1"), checker=checker)

    [case] = answer["cases"]
    assert (case["status"], case["matched"], case["checker_result"]) == ("WrongOutput", None, None)
    assert "printed more than" in answer["message"]


@pytest.mark.parametrize(
    "cases", [[], [{}] * 1001, ["x"], [{"stdin": 1}], [{"expected_output": []}]]
)
def test_invalid_cases_get_422(sandbox: Sandbox, cases: list[object]) -> None:
    body = {"language": "python", "code": "", "cases": cases}

    answer = sandbox.http.post("/v1/run_cases", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["param"].startswith("cases")


PAIR = "import sys\nread = [open(each).read().split() for each in sys.argv[1:]]\n"
CPP_PAIR = """#include <bits/stdc++.h>
using namespace std;
int main(int argc, char** argv) {
  if (argc != 4) return 9;
  ifstream given(argv[1]), printed(argv[2]), answer(argv[3]);
  int sum, first, second;
  given >> sum;
  if (!(printed >> first >> second)) return 2;
  return first + second != sum;
}
"""


@pytest.mark.parametrize(
    "checker",
    [
        {"code": PAIR + "sys.exit(sum(map(int, read[1])) != int(read[0][0]))"},
        {"code": CPP_PAIR, "language": "cpp", **TIME_LIMITS},
        {
            "code": PAIR + "print(int(sum(map(int, read[2])) == int(read[0][0])))",
            "arguments": ["input", "answer", "output"],
            "verdict": "printed",
        },
    ],
)
def test_a_checker_judges_outputs(sandbox: Sandbox, checker: dict[str, Any]) -> None:
    code = "n = int(input())\nprint(1, n - 1 if n < 5 else n) if n < 9 else 1 / 0"

    answer = run_cases(sandbox, code, ("3", "3 0"), ("7", "7 0"), ("9", "9 0"), checker=checker)

    assert statuses(answer) == ["Passed", "WrongOutput", "Failed"]
    assert [case["score"] for case in answer["cases"]] == [1.0, 0.0, None]


@pytest.mark.parametrize(
    "checker",
    [{"code": "raise ValueError('broken')"}, {"code": "int main() { broken", "language": "cpp"}],
)
def test_a_broken_checker_is_told_from_a_wrong_program(
    sandbox: Sandbox, checker: dict[str, Any]
) -> None:
    answer = run_cases(sandbox, "print(1)", ("", "1"), checker=checker)

    assert statuses(answer) == ["CheckerFailed"]
    assert "the checker" in answer["message"]
    assert "broken" in answer["cases"][0]["checker_result"]["stderr"]
