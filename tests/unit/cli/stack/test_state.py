import os
import time
from pathlib import Path

import pytest

from temper.stack.logs import MAX_BYTES, bound, last_lines
from temper.stack.processes import ProcessIdentity, identify
from temper.stack.services import Service, command, environment
from temper.stack.state import StackFile, StackLock, StackState, StackStatus
from temper.stack.supervisor import end_leftovers


def state(supervisor: ProcessIdentity) -> StackState:
    return StackState(
        status=StackStatus.READY,
        url="http://127.0.0.1:1",
        supervisor=supervisor,
        services=[],
        started_at=time.time(),
    )


def test_the_lock_is_exclusive(tmp_path: Path) -> None:
    with StackLock(tmp_path) as first, StackLock(tmp_path) as second:
        assert first.acquire()
        assert not second.acquire()


def test_a_released_lock_can_be_taken(tmp_path: Path) -> None:
    with StackLock(tmp_path) as first:
        assert first.acquire()
    with StackLock(tmp_path) as second:
        assert second.acquire()


def test_a_stack_is_running_while_its_supervisor_is_alive(tmp_path: Path) -> None:
    file = StackFile(tmp_path)
    file.write(state(identify(os.getpid())))

    running = file.running()

    assert running is not None
    assert running.url == "http://127.0.0.1:1"


def test_a_state_without_supervisor_is_stale(tmp_path: Path) -> None:
    file = StackFile(tmp_path)
    file.write(state(ProcessIdentity(pid=os.getpid(), started=1)))

    assert file.running() is None
    assert end_leftovers(file, 0.1) == []
    assert file.read() is None


@pytest.mark.parametrize("content", ["", "{", '{"status": "ready"}'])
def test_an_unreadable_state_means_no_stack(tmp_path: Path, content: str) -> None:
    (tmp_path / "stack.json").write_text(content)

    assert StackFile(tmp_path).running() is None


def test_services_do_not_inherit_the_clients_key() -> None:
    variables = environment(Service.API, "/home", {"TEMPER_API_KEY": "secret", "PATH": "/bin"})

    assert variables == {"TEMPER_HOME": "/home", "PATH": "/bin"}


def test_the_sandbox_environment_is_an_allowlist() -> None:
    own = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "TEMPER_SANDBOX_CONCURRENCY": "8",
        "TEMPER_API_KEY_HASHES": "a" * 64,
        "TEMPER_RUNTIMES": "/runtimes",
    }
    others = {
        "TEMPER_API_KEY": "secret",
        "TEMPER_SANDBOX_API_KEY": "secret",
        "TEMPER_SANDBOX_URL": "http://127.0.0.1:1",
        "TEMPER_DATABASE_URL": "postgresql://u:secret@h/d",
        "TEMPER_BROKER_URL": "redis://:secret@h",
        "TEMPER_ENDPOINT_KEYS": '{"http://h:1": "secret"}',
        "HF_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "LD_PRELOAD": "/x.so",
        "PYTHONPATH": "/x",
    }

    variables = environment(Service.SANDBOX, "/home", own | others)

    assert variables == own | {"TEMPER_HOME": "/home"}


def test_every_service_has_a_module_to_run() -> None:
    for service in Service:
        *_, module = command(service, [])
        path = Path(*module.split("."))
        assert (path / "__main__.py").is_file() or path.with_suffix(".py").is_file()


def test_an_oversized_log_is_rotated(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    with open(log, "ab") as written:
        written.truncate(MAX_BYTES + 1)
        bound(log)
        written.write(b"after\n")

    assert log.read_bytes() == b"after\n"
    assert (tmp_path / "api.log.1").stat().st_size == MAX_BYTES + 1


def test_last_lines_returns_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))

    assert last_lines(log, 2) == ["line 9998", "line 9999"]
    assert last_lines(tmp_path / "none.log") == []
