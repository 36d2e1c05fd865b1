"""A new kernel starts once no process of the previous one is left."""

import os
import signal
import subprocess
import sys
import threading

from services.sandbox.guest.notebook import process_group
from tests.support.waiting import wait_for


def _sleeper(group: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", "import time\nwhile True: time.sleep(100)"], process_group=group
    )


def test_the_end_of_a_group_is_awaited_until_its_last_process_is_reaped() -> None:
    leader = _sleeper(0)
    member = _sleeper(leader.pid)
    leader.kill()
    leader.wait()
    waiting = threading.Thread(target=process_group.await_end, args=(leader.pid,))
    waiting.start()
    # Once it is dead, all that the wait can wait for is that somebody reaps it.
    wait_for(lambda: os.waitid(os.P_PID, member.pid, os.WEXITED | os.WNOWAIT), "it was killed")
    assert waiting.is_alive()
    assert member.wait() == -signal.SIGKILL
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_group_that_has_ended_is_not_waited_for() -> None:
    leader = _sleeper(0)
    leader.kill()
    leader.wait()
    process_group.await_end(leader.pid)
