"""Commands of an installation."""

from pathlib import Path

import pytest

from infra.runtimes.installer.process import run_logged

STUBBORN = '(trap "" TERM; exec sleep 600) & echo $! > "$1"; wait'


def test_an_interrupted_command_leaves_no_process_that_ignores_signals(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def interrupt_once_it_sleeps() -> None:
        text = note.read_text() if note.exists() else ""
        if text and Path(f"/proc/{text.strip()}/comm").read_text() == "sleep\n":
            raise KeyboardInterrupt

    with (tmp_path / "lock").open("w") as lock, pytest.raises(KeyboardInterrupt):
        run_logged(
            ["/bin/sh", "-c", STUBBORN, "sh", str(note)],
            log=tmp_path / "log",
            lock=lock.fileno(),
            limit=600.0,
            tick=interrupt_once_it_sleeps,
        )

    # A zombie until the process that adopted it reaps it.
    status = Path(f"/proc/{note.read_text().strip()}/stat")
    assert not status.exists() or ") Z " in status.read_text()
