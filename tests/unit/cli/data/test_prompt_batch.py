"""The options of ``temper batch``, up to the process that answers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from temper.cli.main import main


class Replaced(Exception):
    """Raised in place of starting the process that answers."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def execve(*_: object) -> None:
        raise Replaced

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setattr(os, "execve", execve)
    (tmp_path / "in.csv").write_text("a\n1\n")
    (tmp_path / "prompt.yaml").write_text("system_prompt: Add {{ a }}.\n")


FILES = ["--prompts", "in.csv", "--template", "prompt.yaml", "-o", "out.jsonl"]
ENDPOINT = ["--base-url", "http://127.0.0.1:1/v1,m"]


def asked(*options: str) -> dict[str, Any]:
    """What the process is asked for."""
    with pytest.raises(Replaced):
        main(["batch", *FILES, *options])
    (request,) = Path("out.jsonl.rows").iterdir()
    body: dict[str, Any] = json.loads(request.read_text())
    return body


def test_options_are_fields_of_the_batch(tmp_path: Path) -> None:
    body = asked(
        *ENDPOINT, "--var", "x=a", "--delimiter", ";", "--system", "7", "--concurrency", "3",
        "--timeout", "2.5", "--label-path", "answer", "--reasoning-end", "</t>",
        "--body", "seed=7", "-n", "2", "--template-as-system",
    )  # fmt: skip

    assert (body["records"], body["output"]) == (
        str(tmp_path / "in.csv"),
        str(tmp_path / "out.jsonl"),
    )
    assert (body["delimiter"], body["concurrency"], body["timeout_seconds"]) == (";", 3, 2.5)
    prompting = body["prompting"]
    assert (prompting["variables"], prompting["system_text"]) == ({"x": "a"}, "7")
    assert prompting["template_as_system"]
    assert body["parsing"] == {"path": "answer", "reasoning_ends": ["</t>"]}
    assert body["body"] == {"temperature": 0.8, "max_tokens": 8000, "n": 2, "seed": 7}
    assert [each["model"] for each in body["endpoints"]] == ["m"]


def test_an_engine_is_spread_over_its_devices(tmp_path: Path) -> None:
    options = ["--local", "--model", "tiny", "--devices", "0, 1", "--engine", "max_model_len=64"]

    engine = asked(*options)["engine"]

    assert (engine["model"], engine["devices"]) == ("tiny", ["0", "1"])
    assert engine["options"]["tensor_parallel_size"] == 2
    assert engine["options"]["max_model_len"] == 64
    assert engine["runtimes"] == str(tmp_path / "runtimes")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--base-url, or --model and --local"),
        ([*ENDPOINT, "--concurrency", "0"], "--concurrency: concurrency: Input should be greater"),
        ([*ENDPOINT, "--var", "x"], "--var: 'x' is not of the form NAME=VALUE"),
        ([*ENDPOINT, "--body", "seed=x"], "--body: seed: 'x' is not JSON"),
        ([*ENDPOINT, "--devices", "0"], "--engine and --devices need --local"),
        ([*ENDPOINT, "--reasoning-end", "x"], "--reasoning-end needs --label-path"),
        (["--local", "--model", "m", "--engine", "x=1"], "--engine: engine.options.x: Extra"),
        (["--local"], "--local needs --model"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_runs(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["batch", *FILES, *options]) == 2

    assert said in capsys.readouterr().err
    assert not Path("out.jsonl.rows").exists()
