"""A slot of the container tier ends and removes what is left of its user."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.unit.sandbox.guest.one_thread import USER, in_a_process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def test_a_new_slot_ends_and_removes_what_an_earlier_one_left(tmp_path: Path) -> None:
    user = USER + 1
    workspace = tmp_path / str(user) / "workspace"
    (workspace / "folder").mkdir(parents=True)
    (workspace / "folder" / "file").touch()
    with (
        tempfile.NamedTemporaryFile(dir="/dev/shm", delete=False) as shared,
        subprocess.Popen(["sleep", "600"], user=user, group=user, extra_groups=[]) as left,
    ):
        os.chown(shared.name, user, user)
        call = f"container.take_over({str(tmp_path)!r}, {user})"
        in_a_process(f"from services.sandbox.guest import container\n{call}\n")

        assert left.wait(120) == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
    assert not Path(shared.name).exists()
