"""Reading vLLM's log."""

from pathlib import Path

import pytest

from services.inference.vllm.log import LogFollower, StartupPhase, failure_cause, milestone

WORKER = "(EngineCore pid=8471) ERROR 11-21 11:13:12 [multiproc_executor.py:953] "


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            [
                f"{WORKER}Traceback (most recent call last):",
                f"{WORKER}ValueError: the cache does not fit",
                "Traceback (most recent call last):",
                "RuntimeError: Engine core initialization failed. See root cause above. {}",
            ],
            "ValueError: the cache does not fit",
        ),
        (
            [
                f"{WORKER}RuntimeError: CPU Generator does not use offset",
                "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
                "See stack trace (above) for the root cause.",
            ],
            "RuntimeError: CPU Generator does not use offset",
        ),
        (
            [
                "Traceback (most recent call last):",
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
                "  Value error, Invalid local directory: '/x'. [type=value_error]",
                "    For further information visit https://errors.pydantic.dev",
            ],
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig: "
            "Value error, Invalid local directory: '/x'. [type=value_error]",
        ),
        (
            ["usage: api_server.py [-h]", "api_server.py: error: argument --port: invalid", ""],
            "api_server.py: error: argument --port: invalid",
        ),
        (["Bus error", "  "], "Bus error"),
        ([], None),
    ],
)
def test_a_failure_cause_is_one_line(lines: list[str], cause: str | None) -> None:
    assert failure_cause(lines) == cause


def test_a_long_cause_is_truncated() -> None:
    cause = failure_cause(["ValueError: " + "x" * 10_000])

    assert cause is not None
    assert len(cause) == 500


def test_milestones_are_recognized() -> None:
    line = "(Worker pid=8471) INFO 11-21 11:14:24 [cpu_model_runner.py:68] Starting to load model"

    assert milestone(line) is StartupPhase.LOADING_WEIGHTS
    assert milestone("INFO: Waiting for application startup.") is None


def test_a_follower_yields_complete_lines_written_after_its_start(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("of another attempt\n")
    follower = LogFollower(log)

    with log.open("a") as file:
        file.write("one\ntwo")
        file.flush()
        assert follower.new_lines() == ["one"]
        file.write(" halves\n")
        file.flush()
        assert follower.new_lines() == ["two halves"]
        assert follower.new_lines() == []
