"""No session of an environment outlives the worker that opened it."""

import subprocess
import sys

from tests.support.engines.environment_server import EnvironmentServer
from tests.support.programs.environment_rollouts import AT_ONCE
from tests.support.waiting import wait_for

ROLLOUTS = 1000
KILLS = 4


def test_a_thousand_rollouts_with_kills_leave_no_session() -> None:
    program = [sys.executable, "-m", "tests.support.programs.environment_rollouts"]
    with EnvironmentServer() as server:
        for kill in range(1, KILLS + 1):
            enough = ROLLOUTS * kill // KILLS

            def is_busy(enough: int = enough) -> bool:
                return server.opened >= enough and server.sessions > 1

            with subprocess.Popen([*program, server.origin]) as worker:
                try:
                    wait_for(is_busy, f"{enough} rollouts")
                finally:
                    worker.kill()
            wait_for(lambda: server.sessions == 0, "the end of all sessions")

        assert server.opened >= ROLLOUTS
        assert 1 < server.most <= AT_ONCE
        assert server.goodbyes < server.opened  # some were killed in the middle
