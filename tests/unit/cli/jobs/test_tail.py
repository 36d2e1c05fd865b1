"""``temper tail``: the end of a job's log in a terminal, and what follows."""

from pathlib import Path

import pytest
from fastapi import Request
from fastapi.responses import FileResponse, JSONResponse, Response

from temper.cli.jobs.tail import LogLines
from temper.cli.main import main
from temper.client import Temper
from temper.client.process_log import MOST_BYTES
from tests.unit.cli.conftest import Answer, ScriptedServer

JOB = "/v1/jobs/ftjob-1"
PATH = f"{JOB}/artifacts/log.txt"


@pytest.fixture
def log(server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a job of the gateway."""
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.setattr("temper.cli.jobs.tail.POLL_SECONDS", 0.0)
    path = tmp_path / "log.txt"
    path.touch()
    server.on(PATH, lambda _: FileResponse(path))
    return path


def append(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def logging(log: Path, text: str, status: str) -> Answer:
    """Answers with a status, before which the job logs a text."""

    def answer(_: Request) -> Response:
        append(log, text)
        return JSONResponse({"id": "ftjob-1", "created_at": 0, "kind": "k", "status": status})

    return answer


def test_the_latest_lines_are_printed_as_a_terminal_shows_them(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(log, "one\n\x1b[32mgrün\x1b[0m\n 10 %\r 90 %\r\nodd\x1b]0;title\x07\u202e\nthe end")

    assert main(["tail", "ftjob-1", "-n", "4"]) == 0

    odd = "odd\\x1b]0;title\\x07\\u202e"
    assert capsys.readouterr().out.splitlines() == ["grün", " 90 %", odd, "the end"]


def test_of_a_long_log_whole_lines_of_its_end_are_printed(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(log, "".join(f"{number:05} {'ü' * 1000}\n" for number in range(100)))

    assert main(["tail", "ftjob-1", "-n", "10000"]) == 0

    numbers = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    whole = MOST_BYTES // len(f"00000 {'ü' * 1000}\n".encode())
    assert numbers == [f"{number:05}" for number in range(100 - whole, 100)]


def test_a_log_is_followed_until_its_job_ends(
    log: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    append(log, "zero\none\n")
    away = Response(status_code=503, headers={"x-should-retry": "false"})
    server.on(
        JOB,
        logging(log, "two\nthr", "running"),
        away,
        logging(log, "ee\n", "running"),
        logging(log, "four", "failed"),
    )

    assert main(["tail", "ftjob-1", "--follow", "-n", "1"]) == 1

    assert capsys.readouterr().out.splitlines() == ["one", "two", "three", "four"]


def test_a_log_that_was_cut_short_is_read_like_a_new_one(
    log: Path, client: Temper, tmp_path: Path
) -> None:
    append(log, "an old line\n")
    found = client.jobs.log("ftjob-1")
    assert found.read() == b"an old line\n"
    assert found.read() == b""

    log.write_text("new\n")

    assert found.read() == b"new\n"
    assert found.read() == b""


def test_lines_of_a_log_that_was_cut_short_are_not_joined(log: Path, client: Temper) -> None:
    append(log, "an old line without an en")
    lines = LogLines(client.jobs.log("ftjob-1"))
    assert lines.finished() == []

    log.write_text("new\n")

    assert lines.finished() == ["new"]


def test_a_log_that_grows_all_the_time_is_printed_without_following_it(
    log: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def growing(_: Request) -> Response:
        append(log, "another\n")
        return FileResponse(log)

    server.on(PATH, growing)
    assert main(["tail", "ftjob-1"]) == 0
    assert capsys.readouterr().out == "another\n"


def test_a_log_that_comes_whole_is_refused(
    log: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on(PATH, Response("of any size\n"))  # as from a proxy without range support
    assert main(["tail", "ftjob-1"]) == 1
    assert "ignored the requested byte range" in capsys.readouterr().err


def test_a_job_without_a_log_is_reported(
    log: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"message": "no artifact", "type": "x", "param": None, "code": "artifact_not_found"}
    for answer in (FileResponse(log), JSONResponse({"error": error}, 404)):
        server.on(PATH, answer)
        assert main(["tail", "ftjob-1"]) == 0
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == ("", "nothing has been logged yet\n")


def test_an_unknown_job_is_an_error(
    log: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"message": "no job 'x'", "type": "x", "param": "id", "code": "job_not_found"}
    server.on(PATH, JSONResponse({"error": error}, 404))

    assert main(["tail", "ftjob-1"]) == 1
    assert "no job 'x'" in capsys.readouterr().err
