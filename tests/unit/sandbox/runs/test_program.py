"""Validation of requests."""

import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.contracts.errors import Unprocessable
from services.contracts.sandbox.programs import Language, RunCodeRequest
from services.sandbox.languages.catalog import LANGUAGES
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import Program, check_program


@pytest.fixture
def settings(tmp_path: Path) -> SandboxSettings:
    return SandboxSettings(
        home=tmp_path,
        sandbox_max_run_seconds=100,
        sandbox_memory_mb=200,
        sandbox_max_memory_mb=300,
        sandbox_queue_seconds=25,
    )


def check(settings: SandboxSettings, **fields: Any) -> Program:
    body = {"code": "1", "language": "python", **fields}
    return check_program(RunCodeRequest.model_validate(body), settings)


@pytest.mark.parametrize("asked", [None, -1, 0, -(10**30)])
def test_the_default_memory_limit_applies(settings: SandboxSettings, asked: int | None) -> None:
    assert check(settings, memory_limit_MB=asked).running.memory_bytes == 200 << 20
    assert check(settings).running.memory_bytes == 200 << 20
    assert check(settings, memory_limit_MB=300).running.memory_bytes == 300 << 20


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("compile_timeout", 100.1),
        ("run_timeout", 1e308),
        ("memory_limit_MB", 301),
        ("memory_limit_MB", 10**30),
    ],
)
def test_limits_above_the_maximum_are_rejected_by_name(
    settings: SandboxSettings, field: str, value: float
) -> None:
    with pytest.raises(Unprocessable, match="TEMPER_SANDBOX_MAX_") as refusal:
        check(settings, **{field: value})

    assert refusal.value.param == field


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), "soon", None])
def test_a_time_limit_is_a_finite_number(settings: SandboxSettings, seconds: object) -> None:
    with pytest.raises(ValidationError):
        check(settings, run_timeout=seconds)


def test_a_negative_time_limit_is_passed_to_the_runner(
    settings: SandboxSettings,
) -> None:
    assert check(settings, run_timeout=-1e308).running.seconds < 0


def test_the_queue_timeout_is_what_the_client_waits_beyond_the_run_time(
    settings: SandboxSettings,
) -> None:
    python = check(settings, compile_timeout=7, run_timeout=30)
    compiled = check(settings, language="cpp", compile_timeout=7, run_timeout=30)
    long = check(settings, compile_timeout=90)

    assert (python.queue_timeout, compiled.queue_timeout) == (17, 10)
    assert long.queue_timeout == 25  # of the settings
    assert check(settings, compile_timeout=-90).queue_timeout == 10


def test_every_contract_language_is_in_the_catalog() -> None:
    assert set(LANGUAGES) == set(Language)


@pytest.mark.parametrize(
    ("language", "code", "path"),
    [("python", "print(1)", "main.py"), ("java", "public class A {}", "A.java")],
)
def test_a_file_in_the_place_of_the_code_is_rejected(
    settings: SandboxSettings, language: str, code: str, path: str
) -> None:
    files = {path: base64.b64encode(b"another").decode()}
    request = RunCodeRequest(code=code, language=Language(language), files=files)
    with pytest.raises(Unprocessable, match=f"'{path}' is reserved for the code"):
        check_program(request, settings)
    same = {path: base64.b64encode(code.encode()).decode()}
    check_program(request.model_copy(update={"files": same}), settings)


@pytest.mark.parametrize(("given", "seconds"), [("5", 5.0), ("0.5", 0.5), (7, 7.0)])
def test_time_limits_may_be_numeric_text(given: object, seconds: float) -> None:
    body = {"code": "", "language": "python", "run_timeout": given}
    assert RunCodeRequest.model_validate(body).run_timeout == seconds
