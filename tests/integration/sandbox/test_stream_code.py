"""The output of a program as it comes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx_sse
import pytest

from tests.support.sandbox import TIME_LIMITS, Sandbox

Events = Iterator[tuple[str, dict[str, Any]]]


@contextmanager
def streamed(sandbox: Sandbox, code: str, **fields: Any) -> Iterator[Events]:
    body = {"language": "python", "code": code, **TIME_LIMITS, **fields}
    with httpx_sse.connect_sse(sandbox.http, "POST", "/v1/run_code/stream", json=body) as source:
        yield ((event.event, json.loads(event.data)) for event in source.iter_sse())


def test_output_comes_while_the_program_runs(sandbox: Sandbox) -> None:
    code = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"
    with streamed(sandbox, code, run_timeout=200) as events:
        assert next(events) == ("stdout", {"text": "begun\n"})


def test_the_result_comes_last_and_is_that_of_the_plain_route(sandbox: Sandbox) -> None:
    code = "import sys\nprint('a')\nprint('b', file=sys.stderr)\nsys.exit(3)"
    with streamed(sandbox, code) as events:
        *pieces, (name, result) = list(events)

    assert (name, result["status"]) == ("result", "Failed")
    assert result["run_result"]["return_code"] == 3
    for stream, text in (("stdout", "a\n"), ("stderr", "b\n")):
        assert "".join(data["text"] for name, data in pieces if name == stream) == text
        assert result["run_result"][stream] == text


def test_the_compiler_s_result_comes_before_the_program_s_output(sandbox: Sandbox) -> None:
    code = '#include <cstdio>\nint main() { puts("hi"); }'
    with streamed(sandbox, code, language="cpp") as events:
        names = [name for name, _ in events]

    assert names == ["compile_result", "stdout", "result"]


def test_a_character_in_two_pieces_is_one_in_the_end(sandbox: Sandbox) -> None:
    code = (
        "import sys, time\n"
        "for byte in '€'.encode():\n"
        "    sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush(); time.sleep(0.05)"
    )
    with streamed(sandbox, code) as events:
        assert next(events) == ("stdout", {"text": "€"})


def test_what_is_cut_is_not_streamed_either(sandbox: Sandbox) -> None:
    with streamed(sandbox, "print('x' * (20 << 20), end='')") as events:
        *pieces, (_, result) = list(events)

    assert result["status"] == "Success", result["run_result"]["stderr"]
    assert result["run_result"]["stdout_truncated"]
    assert sum(len(data["text"]) for _, data in pieces) == 8 << 20


@pytest.mark.parametrize("fields", [{"language": "cobol"}, {"run_timeout": "x"}])
def test_a_bad_request_is_no_stream(sandbox: Sandbox, fields: dict[str, str]) -> None:
    body = {"language": "python", "code": "", **fields}

    answer = sandbox.http.post("/v1/run_code/stream", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["param"] in fields
