"""Prompt batches over real sockets, and ``temper batch`` as a process that is killed."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.contracts.batches.prompt_batches import PromptBatch, rows_folder
from services.contracts.errors import Conflict, InvalidRequest, JobFailed
from services.evaluator.prompts.identity import claimed
from services.evaluator.prompts.run import answer
from temper.cli.data.prompt_batch import app
from tests.support.waiting import wait_for
from tests.unit.evaluator.chat_server import ChatServer, Reply, Script, add, error

TEMPLATE = "system_prompt: '{{ left }}+{{ right }}='"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


class Batch:
    """A batch of additions in a folder."""

    def __init__(self, folder: Path, rows: int, *base_urls: str, **options: Any) -> None:
        self.records = folder / "records.json"
        self.template = folder / "prompt.yaml"
        self.output = folder / "out.json"
        records = [{"left": number, "right": 1} for number in range(rows)]
        self.records.write_text(json.dumps(records))
        self.template.write_text(TEMPLATE)
        self.request = PromptBatch.model_validate(
            {
                "records": self.records,
                "output": self.output,
                "prompting": {"template": self.template},
                "endpoints": [{"base_url": url, "model": "adder"} for url in base_urls],
                "body": {"temperature": 0},
                **options,
            }
        )
        self.folder = rows_folder(self.output)
        self.folder.mkdir(exist_ok=True)

    def run(
        self, *, failed_again: bool = False, environment: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        asyncio.run(
            answer(
                self.request,
                self.folder,
                failed_again=failed_again,
                environment=environment or {},
            )
        )
        return self.rows()

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.output.read_text())
        return rows


@contextmanager
def unreachable() -> Iterator[str]:
    """The URL of a port that is taken, so that no other process listens there, and refuses."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


def is_right(row: dict[str, Any]) -> bool:
    return bool(row["result"] == f"The sum is {row['index'] + 1}" and row["error"] is None)


def first(failing: Callable[[], Reply], times: int = 1) -> Script:
    return lambda prompt, asked: failing() if asked <= times else add(prompt, asked)


HOSTILE: dict[int, Script] = {
    1: first(lambda: error(429, "slow down", **{"retry-after": "0"}), 8),
    2: first(lambda: error(503, "busy")),
    3: first(lambda: error(500, "broken")),
    4: first(lambda: Reply(reset=True)),
    5: first(lambda: Reply(body=b"<html>")),
    6: first(lambda: Reply("12", truncate=True)),
    7: first(lambda: Reply(body=b'{"choices": [], "error": null}')),
    8: lambda prompt, asked: Reply(add(prompt, asked).text, delay=0.2),
}
"""What happens to the row of each last digit."""
POISON: dict[int, Script] = {
    10: lambda _prompt, _asked: error(400, "too long"),
    20: lambda _prompt, _asked: error(500, "always broken"),
    30: lambda _prompt, _asked: Reply(hold=True),
}


def hostile(prompt: str, asked: int) -> Reply:
    number = int(prompt.split("+", maxsplit=1)[0])
    script = POISON.get(number) or HOSTILE.get(number % 10) or add
    return script(prompt, asked)


@pytest.mark.drill
def test_every_record_ends_answered_or_failed_with_its_cause(
    tmp_path: Path, server: ChatServer
) -> None:
    server.script = hostile

    rows = Batch(tmp_path, 60, server.url, timeout_seconds=10.0).run()

    assert [row["index"] for row in rows] == list(range(60))
    assert [row["index"] for row in rows if not is_right(row)] == list(POISON)
    rejected, broken, hanging = (rows[number] for number in POISON)
    assert (rejected["status_code"], rejected["attempts"]) == (400, 1)
    assert "too long" in rejected["error"]
    assert (broken["status_code"], broken["attempts"]) == (500, 6)
    assert "always broken" in broken["error_body"]
    assert (hanging["status_code"], hanging["attempts"]) == (None, 3)
    assert "did not answer within 10.0 s" in hanging["error"]
    # A request that was answered is never sent again.
    assert {server.asked[f"{number}+1="] for number in (9, 19, 29)} == {1}


def test_a_finished_batch_asks_nothing_and_a_retry_asks_what_failed(
    tmp_path: Path, server: ChatServer
) -> None:
    batch = Batch(tmp_path, 5, server.url)
    server.script = lambda prompt, asked: (
        error(400, "no") if prompt == "3+1=" else add(prompt, asked)
    )
    before = batch.run()
    assert [row["index"] for row in before if row["error"]] == [3]

    assert batch.run() == before
    assert server.asked.total() == 5

    server.script = add
    assert all(map(is_right, batch.run(failed_again=True)))
    assert server.asked.total() == 6


def test_a_record_that_cannot_be_rendered_is_an_error_of_its_row(
    tmp_path: Path, server: ChatServer
) -> None:
    batch = Batch(tmp_path, 3, server.url)
    batch.template.write_text("system_prompt: '{{ left }}+{{ 1 // left }}='")

    rows = batch.run()

    assert rows[0]["error"].startswith("Render Error: ")
    assert [row["result"] for row in rows] == [None, "The sum is 2", "The sum is 2"]


def test_a_field_that_no_record_has_ends_the_batch_before_the_first_request(
    tmp_path: Path, server: ChatServer
) -> None:
    batch = Batch(tmp_path, 3, server.url)
    batch.template.write_text("system_prompt: '{{ left }}+{{ rigth }}='")

    with pytest.raises(InvalidRequest, match="no record has the field 'rigth'"):
        batch.run()

    assert server.asked.total() == 0


@pytest.mark.parametrize("role", ["records", "template"])
def test_a_file_that_is_read_is_never_the_output(
    tmp_path: Path, server: ChatServer, role: str
) -> None:
    batch = Batch(tmp_path, 3, server.url)
    batch.output = tmp_path / "alias.json"
    batch.output.symlink_to(getattr(batch, role))
    before = batch.output.read_bytes()

    result = CliRunner().invoke(app, command(batch, server)[4:])

    assert result.exit_code == 2
    assert batch.output.read_bytes() == before


def test_a_former_name_of_guided_decoding_is_refused(tmp_path: Path, server: ChatServer) -> None:
    batch = Batch(tmp_path, 3, server.url)
    arguments = [*command(batch, server)[4:], "--body", 'guided_json={"type": "object"}']

    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
    assert "guided_json" in result.output
    assert not server.bodies


def test_rows_go_to_another_endpoint_when_one_fails(tmp_path: Path, server: ChatServer) -> None:
    with unreachable() as dead, ChatServer(lambda *_: error(401, "no key")) as refusing:
        rows = Batch(tmp_path, 30, dead, refusing.url, server.url).run()

    assert all(map(is_right, rows))
    assert {row["endpoint"] for row in rows} == {server.url}


def test_several_answers_of_a_record_are_a_list(tmp_path: Path, server: ChatServer) -> None:
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in "ab"]
    reply = Reply(body=json.dumps({"choices": choices}).encode())
    server.script = lambda _prompt, _asked: reply

    (row,) = Batch(tmp_path, 1, server.url, body={"n": 2}).run()

    assert row["result"] == ["a", "b"]
    assert server.bodies[0]["n"] == 2


def test_ten_poison_rows_in_a_row_end_nothing(tmp_path: Path, server: ChatServer) -> None:
    server.script = lambda prompt, asked: (
        error(400, "no") if int(prompt.split("+")[0]) < 12 else add(prompt, asked)
    )

    rows = Batch(tmp_path, 20, server.url, concurrency=1).run()

    assert [is_right(row) for row in rows] == [False] * 12 + [True] * 8


def test_a_batch_ends_when_every_endpoint_refuses_and_goes_on_later(
    tmp_path: Path, server: ChatServer
) -> None:
    batch = Batch(tmp_path, 40, server.url)
    server.script = lambda _prompt, _asked: error(401, "wrong key")
    with pytest.raises(JobFailed, match="wrong key"):
        batch.run()
    assert not batch.output.exists()

    server.script = add
    assert all(map(is_right, batch.run()))


def test_a_batch_ends_when_no_endpoint_was_reached_for_long(tmp_path: Path) -> None:
    with unreachable() as dead:
        batch = Batch(tmp_path, 3, dead, patience_seconds=0.5)

        with pytest.raises(JobFailed, match="no endpoint was reached"):
            batch.run()


def test_keys_are_sent_but_not_kept(tmp_path: Path, server: ChatServer) -> None:
    endpoint = {"base_url": server.url, "model": "adder", "api_key_variable": "KEY"}
    batch = Batch(tmp_path, 1, server.url, endpoints=[endpoint])

    batch.run(environment={"KEY": "secret"})

    assert server.authorizations == {"Bearer secret"}
    assert all(b"secret" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_rows_of_another_batch_are_not_mixed_in(tmp_path: Path, server: ChatServer) -> None:
    batch = Batch(tmp_path, 2, server.url)
    with (
        claimed(batch.folder, batch.request),
        pytest.raises(Conflict, match="another temper batch"),
        claimed(batch.folder, batch.request),
    ):
        pass
    other = Batch(tmp_path, 2, server.url, body={"temperature": 1})
    other.template.write_text("system_prompt: other")

    with (
        pytest.raises(Conflict, match=re.escape("(template, body differ)")),
        claimed(other.folder, other.request),
    ):
        pass


def command(batch: Batch, server: ChatServer) -> list[str]:
    return [
        *(sys.executable, "-m", "temper", "batch", "--model", "adder"),
        *("--base-url", server.url, "--prompts", str(batch.records)),
        *("--template", str(batch.template), "-o", str(batch.output)),
    ]


def test_a_killed_command_goes_on_without_asking_answered_records_again(
    tmp_path: Path, server: ChatServer
) -> None:
    batch = Batch(tmp_path, 40, server.url)
    server.script = lambda prompt, asked: Reply(
        add(prompt, asked).text, hold=int(prompt.split("+")[0]) >= 20
    )
    environment = {**os.environ, "OPENAI_API_KEY": ""}
    killed = subprocess.Popen(command(batch, server), env=environment, stderr=subprocess.DEVNULL)
    log = batch.folder / "rows.jsonl"
    try:
        # Two interpreters start before the first answer.
        wait_for(lambda: log.exists() and log.read_bytes().count(b"\n") == 20, "20 answers", 300)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
    with open(log, "ab") as torn:
        torn.write(b'{"index": 20, "res')
    server.release()

    again = subprocess.run(
        command(batch, server), env=environment, capture_output=True, text=True, check=True
    )

    assert "40 answered, 0 failed" in again.stderr
    assert all(map(is_right, batch.rows()))
    assert {server.asked[f"{number}+1="] for number in range(20)} == {1}
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("adder", 0.8, 8000)


def test_compare_shows_the_rows_that_differ(tmp_path: Path) -> None:
    rows = [{"index": index, "result": str(index), "error": None} for index in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    rows[1]["result"] = "other"
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)))

    run = subprocess.run(
        [*(sys.executable, "-m", "temper", "batch", "compare"), "a.json", "b.jsonl"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout == 'row 1\n  result: "1" | "other"\n1 of 3 rows differ\n'
    assert run.returncode == 1
