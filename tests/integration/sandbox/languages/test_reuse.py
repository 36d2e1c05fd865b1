"""Identical sources are compiled once, however many requests there are."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.sandbox import Sandbox

SECONDS = 120
CODE = """\
#include <iostream>
int main() { int n; std::cin >> n; std::cout << n + 1; }
"""


@pytest.fixture
def has_cpp(missing: dict[str, str]) -> None:
    if "cpp" in missing:
        pytest.skip(missing["cpp"])


def _compilations(sandbox: Sandbox) -> int:
    prefix = 'temper_sandbox_compilations_total{found="not_at_all"} '
    (line,) = (
        line for line in sandbox.http.get("/metrics").text.splitlines() if line.startswith(prefix)
    )
    return int(float(line.removeprefix(prefix)))


def _output(sandbox: Sandbox, code: str, **fields: Any) -> str:
    return sandbox.output(code, "cpp", compile_timeout=SECONDS, run_timeout=SECONDS, **fields)


@pytest.mark.usefixtures("has_cpp")
def test_a_program_is_compiled_once_for_all_its_inputs(sandbox: Sandbox) -> None:
    before = _compilations(sandbox)
    with ThreadPoolExecutor(8) as pool:
        shown = list(pool.map(lambda n: _output(sandbox, CODE, stdin=str(n)), range(8)))
    assert shown == [str(n + 1) for n in range(8)]
    assert _compilations(sandbox) == before + 1


@pytest.mark.usefixtures("has_cpp")
def test_another_file_changes_the_cache_key(sandbox: Sandbox) -> None:
    code = '#include "answer.h"\n#include <iostream>\nint main() { std::cout << ANSWER; }'
    shown = [
        _output(sandbox, code, files={"answer.h": content})
        for content in ("I2RlZmluZSBBTlNXRVIgMQo=", "I2RlZmluZSBBTlNXRVIgMgo=")
    ]
    assert shown == ["1", "2"]
