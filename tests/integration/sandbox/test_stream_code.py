"""Streaming the output of a program."""

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


def test_output_is_streamed_while_the_program_runs(sandbox: Sandbox) -> None:
    code = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"
    with streamed(sandbox, code, run_timeout=200) as events:
        assert next(events) == ("stdout", {"text": "begun\n"})


def test_the_last_event_is_the_plain_response(sandbox: Sandbox) -> None:
    code = "import sys\nprint('a')\nprint('b', file=sys.stderr)\nsys.exit(3)"
    with streamed(sandbox, code) as events:
        *pieces, (name, result) = list(events)

    assert (name, result["status"]) == ("result", "Failed")
    assert result["run_result"]["return_code"] == 3
    for stream, text in (("stdout", "a\n"), ("stderr", "b\n")):
        assert "".join(data["text"] for name, data in pieces if name == stream) == text
        assert result["run_result"][stream] == text


def test_the_compile_result_precedes_the_output(sandbox: Sandbox) -> None:
    code = '#include <cstdio>\nint main() { puts("hi"); }'
    with streamed(sandbox, code, language="cpp") as events:
        names = [name for name, _ in events]

    assert names == ["compile_result", "stdout", "result"]


def test_split_characters_are_joined(sandbox: Sandbox) -> None:
    code = (
        "import sys, time\n"
        "for byte in '€'.encode():\n"
        "    sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush(); time.sleep(0.05)"
    )
    with streamed(sandbox, code) as events:
        assert next(events) == ("stdout", {"text": "€"})


def test_truncated_output_is_not_streamed(sandbox: Sandbox) -> None:
    with streamed(sandbox, "print('x' * (20 << 20), end='')") as events:
        *pieces, (_, result) = list(events)

    assert result["status"] == "Success", result["run_result"]["stderr"]
    assert result["run_result"]["stdout_truncated"]
    assert sum(len(data["text"]) for _, data in pieces) == 8 << 20


@pytest.mark.parametrize("fields", [{"language": "cobol"}, {"run_timeout": "x"}])
def test_an_invalid_request_gets_no_stream(sandbox: Sandbox, fields: dict[str, str]) -> None:
    body = {"language": "python", "code": "", **fields}

    answer = sandbox.http.post("/v1/run_code/stream", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["param"] in fields
