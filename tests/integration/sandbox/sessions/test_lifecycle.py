"""Sessions have an owner, a limit and an expiry, and leave nothing behind."""

from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from services.core.web.auth import hash_key
from tests.integration.sandbox.sessions.client import SessionClient
from tests.support.sandbox import Sandbox, running_sandbox
from tests.support.waiting import wait_for


def processes_below(pid: int, mark: str) -> list[int]:
    """The descendants of a process that have a text in their command line."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if mark in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue  # it has just ended
    return found


def test_deleting_a_session_kills_everything_it_started(
    open_session: Callable[..., SessionClient], sandbox: Sandbox
) -> None:
    session = open_session()
    session.execute(
        "import subprocess\n"
        "subprocess.Popen(['setsid', 'sleep', '98765'])\n"
        "subprocess.Popen(['sleep', '98765'], start_new_session=True)"
    )
    wait_for(lambda: len(processes_below(sandbox.process.pid, "98765")) == 2, "they run")
    answer = session.http.delete(session.path)
    assert answer.json() == {"id": session.id, "object": "session", "deleted": True}
    # Without control groups they end a moment after their namespace's first process.
    wait_for(lambda: not processes_below(sandbox.process.pid, "98765"), "they have ended")
    assert session.http.get(session.path).status_code == 404
    assert session.http.post(f"{session.path}/execute", json={"code": "1"}).status_code == 404


def test_sessions_are_isolated_from_each_other(open_session: Callable[..., SessionClient]) -> None:
    one, other = open_session(), open_session()
    where = one.value("import os\nx = 1\nos.chmod('.', 0o777)\nos.getcwd()")
    one.execute("open('mark', 'w').write('secret')\nopen('/dev/shm/mark', 'w').write('secret')")
    assert other.value("import os\n('x' in globals(), os.listdir())") == "(False, [])"
    for place in (where, "'/dev/shm'"):
        assert other.execute(f"open({place} + '/mark').read()")["status"] == "error"
    assert one.value("open('mark').read(), x") == "('secret', 1)"


def test_sessions_over_the_limit_are_refused_until_one_ends(
    open_session: Callable[..., SessionClient], sandbox: Sandbox
) -> None:
    opened = [open_session() for _ in range(4)]
    refused = sandbox.http.post("/v1/sessions", json={})
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "too_many_sessions"
    assert int(refused.headers["retry-after"]) > 0
    notebook = sandbox.http.post("/run_jupyter", json={"cells": ["6 * 7"]})
    assert notebook.json()["status"] == "Success"
    opened[1].execute("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)")
    wait_for(lambda: opened[1].show()["status"] == "ended", "one has ended")
    assert open_session().value("1 + 1") == "2"
    assert sandbox.http.get(opened[1].path).status_code == 404


def test_sessions_are_listed_newest_first_in_pages(
    open_session: Callable[..., SessionClient], sandbox: Sandbox
) -> None:
    opened = [open_session().id for _ in range(3)]
    page = sandbox.http.get("/v1/sessions", params={"limit": 2}).json()
    assert [each["id"] for each in page["data"]] == opened[:0:-1]
    assert page["has_more"]
    rest = sandbox.http.get("/v1/sessions", params={"after": page["last_id"]}).json()
    assert [each["id"] for each in rest["data"]] == opened[:1]
    assert not rest["has_more"]


@pytest.mark.parametrize(
    "body",
    [
        {"memory_limit_mb": 10**6},
        {"memory_limit_mb": 1},
        {"idle_timeout": 0},
        {"language": "cobol"},
        {"memory": 5},
        {"files": {"../up": ""}},
        {"files": {"a": "?"}},
        [],
    ],
)
def test_an_invalid_session_request_is_rejected(sandbox: Sandbox, body: object) -> None:
    assert sandbox.http.post("/v1/sessions", json=body).status_code == 422


@pytest.mark.parametrize("body", [{}, {"code": 5}, {"code": "1", "timeout": 10**9}])
def test_an_invalid_cell_is_rejected(session: SessionClient, body: object) -> None:
    assert session.http.post(f"{session.path}/execute", json=body).status_code == 422
    assert session.value("1") == "1"


def test_a_session_is_visible_to_its_owner_only(tmp_path: Path) -> None:
    keys = {"alice": "alices-key", "bob": "bobs-key"}
    hashes = ",".join(hash_key(key) for key in keys.values())
    with running_sandbox(tmp_path, TEMPER_API_KEY_HASHES=hashes) as sandbox:
        alice, bob = (
            httpx.Client(
                base_url=sandbox.url, headers={"Authorization": f"Bearer {key}"}, timeout=60
            )
            for key in keys.values()
        )
        with alice, bob:
            hers = SessionClient.create_first(alice)
            assert hers.value("1 + 1") == "2"
            for method, path in (
                ("GET", ""),
                ("DELETE", ""),
                ("POST", "/interrupt"),
                ("POST", "/restart"),
                ("GET", "/files"),
                ("GET", "/files/a"),
                ("PUT", "/files/a"),
            ):
                assert bob.request(method, f"{hers.path}{path}").status_code == 404, path
            for path in ("execute", "execute/stream"):
                assert bob.post(f"{hers.path}/{path}", json={"code": "1"}).status_code == 404
            assert bob.get("/v1/sessions").json()["data"] == []
            assert bob.get("/v1/sessions", params={"after": hers.id}).status_code == 404
            assert sandbox.http.get(hers.path).status_code == 401
            assert [each["id"] for each in alice.get("/v1/sessions").json()["data"]] == [hers.id]


def test_sessions_end_by_lifetime_and_by_idle_timeout(tmp_path: Path) -> None:
    with running_sandbox(tmp_path, TEMPER_SANDBOX_SESSION_MAX_SECONDS="20") as sandbox:
        patient = SessionClient.create_first(sandbox.http)
        # Last, and not for less: its end is remembered no longer than that, and must be seen.
        idle = SessionClient.create(sandbox.http, idle_timeout=10)

        def end_of(session: SessionClient) -> str | None:
            reason = session.show()["end_reason"]
            return None if reason is None else str(reason)

        assert "idle" in wait_for(lambda: end_of(idle), "it was left alone")
        assert "maximum lifetime" in wait_for(lambda: end_of(patient), "it is old")
        wait_for(lambda: sandbox.http.get(idle.path).status_code == 404, "it is forgotten")


def test_sessions_die_with_the_service(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as sandbox:
        session = SessionClient.create_first(sandbox.http)
        session.execute("import subprocess\nsubprocess.Popen(['sleep', '87654'])")
        wait_for(lambda: processes_below(sandbox.process.pid, "87654"), "it runs")
        family = psutil.Process(sandbox.process.pid).children(recursive=True)
        assert sandbox.process.end() == 0
        _, alive = psutil.wait_procs(family, timeout=20)
        assert alive == []
