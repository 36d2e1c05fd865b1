"""When a serving ends by itself."""

import asyncio
from pathlib import Path

from services.core.process.reporter import tell_that_others_wait
from services.evaluator.serve.activity import Activity
from services.evaluator.serve.child import YIELD_SECONDS, reason_to_leave
from services.inference.relay_protocol import (
    RelayEndpoint,
    keep_warm,
    publish_endpoint,
    read_endpoint,
    withdraw_endpoint,
)

LIMIT = 900.0


def test_a_serving_that_nobody_asks_ends(tmp_path: Path) -> None:
    assert reason_to_leave(LIMIT - 1, LIMIT, tmp_path) is None
    assert reason_to_leave(LIMIT, LIMIT, tmp_path) == "no request for 900 s"


def test_an_idle_serving_ends_early_for_jobs_that_wait(tmp_path: Path) -> None:
    tell_that_others_wait(tmp_path, True)
    assert reason_to_leave(YIELD_SECONDS, LIMIT, tmp_path) is not None
    assert reason_to_leave(0.0, LIMIT, tmp_path) is None

    tell_that_others_wait(tmp_path, False)
    assert reason_to_leave(YIELD_SECONDS, LIMIT, tmp_path) is None


def test_a_serving_kept_warm_stays(tmp_path: Path) -> None:
    tell_that_others_wait(tmp_path, True)
    keep_warm(tmp_path, True)
    assert reason_to_leave(10 * LIMIT, LIMIT, tmp_path) is None

    keep_warm(tmp_path, False)
    assert reason_to_leave(10 * LIMIT, LIMIT, tmp_path) is not None


def test_only_the_time_without_requests_counts_as_idle() -> None:
    now = [0.0]
    activity = Activity(clock=lambda: now[0])
    with activity.request():
        now[0] = 100.0
        assert activity.idle_seconds == 0.0
    now[0] = 130.0

    assert activity.idle_seconds == 30.0
    assert (activity.answered, activity.in_progress) == (1, 0)


def test_a_serving_leaves_once_the_requests_in_progress_have_ended() -> None:
    async def run() -> None:
        activity = Activity()
        with activity.request():
            activity.leave("idle")
            drained = asyncio.create_task(activity.drained())
            await asyncio.sleep(0)
            assert not drained.done()
        await drained
        assert await activity.leaving(60.0)

    asyncio.run(run())


def test_an_endpoint_is_private_and_of_one_epoch(tmp_path: Path) -> None:
    endpoint = RelayEndpoint(epoch=3, url="http://127.0.0.1:1", secret="s")
    publish_endpoint(tmp_path, endpoint)

    assert [file.stat().st_mode & 0o777 for file in tmp_path.iterdir()] == [0o600]
    assert read_endpoint(tmp_path, 3) == endpoint
    assert read_endpoint(tmp_path, 4) is None
    assert "secret" not in repr(endpoint)

    withdraw_endpoint(tmp_path)
    assert read_endpoint(tmp_path, 3) is None
