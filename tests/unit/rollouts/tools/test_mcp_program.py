"""MCP servers that are programs: one for each rollout, and nothing of it outlives the rollout."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.failures import InfrastructureCause as Cause
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import ToolReply, check_tools, open_toolbox
from services.rollouts.tools.base import Episode, EpisodeStart
from services.rollouts.tools.health import check_tools_respond

REPOSITORY = Path(__file__).parents[4]
LINES = [sys.executable, "-S", str(REPOSITORY / "tests/support/programs/mcp_lines.py"), "fixed"]
PUBLISHED = [sys.executable, str(REPOSITORY / "tests/support/programs/mcp_server.py")]
Value = TypeVar("Value")


def in_episode(
    work: Callable[[Episode], Awaitable[Value]],
    command: Sequence[str] = LINES,
    **config: Any,
) -> Value:
    tool = Tool(class_name="mcp", config={"command": "lines", **config})
    environment = OperatorEnvironment(mcp_commands={"lines": tuple(command)})

    async def run() -> Value:
        async with open_toolbox([tool], environment, repeat_seconds=0.0) as toolbox:
            await check_tools_respond([tool], toolbox)
            async with toolbox.episode(EpisodeStart()) as episode:
                return await work(episode)

    return asyncio.run(run())


def called(name: str, **config: Any) -> ToolReply:
    return in_episode(lambda episode: episode.call(name, {}), **config)


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_the_published_server_answers() -> None:
    async def work(episode: Episode) -> tuple[ToolReply, ToolReply, ToolReply]:
        right = await episode.call("add", {"a": 2, "b": 3})
        own = await episode.call("add", {"a": -1, "b": 3})
        return right, own, await episode.call("add", {"a": 1})

    right, own, wrong = in_episode(work, PUBLISHED, timeout=120)

    assert (right.text, right.outcome) == ("5", CallOutcome.ANSWERED)
    assert (own.outcome, own.cause) == (CallOutcome.FAILED, None)
    assert "a is negative" in own.text
    assert wrong.outcome is CallOutcome.INVALID_ARGUMENTS


def test_a_program_starts_in_an_empty_folder_without_the_workers_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_API_KEY", "secret")
    monkeypatch.setenv("HF_TOKEN", "secret")

    seen = json.loads(called("look").text)

    assert seen["files"] == []
    assert seen["argv"] == ["fixed"]
    assert "secret" not in seen["env"].values()
    assert seen["env"]["HOME"] != os.environ["HOME"]
    assert not Path(seen["env"]["HOME"]).exists()


def test_a_rollout_keeps_its_program_and_shares_it_with_none() -> None:
    async def work(episode: Episode) -> list[str]:
        replies = [await episode.call("count", {}) for _ in range(3)]
        return [reply.text for reply in replies]

    assert in_episode(work) == in_episode(work) == ["1", "2", "3"]


def test_everything_that_a_program_started_ends_with_the_rollout() -> None:
    pid = int(called("start").text)

    assert not is_running(pid)


def test_a_server_may_ask_before_it_answers() -> None:
    assert called("ask").text == "{}"


@pytest.mark.parametrize(
    ("name", "cause"),
    [("die", Cause.KILLED), ("hang", Cause.TIMED_OUT), ("babble", Cause.UNREADABLE)],
)
def test_whose_failure_a_call_is(name: str, cause: Cause) -> None:
    reply = called(name, timeout=3.0 if name == "hang" else 60.0)

    assert (reply.outcome is CallOutcome.ANSWERED, reply.cause) == (False, cause)
    if name == "die":
        assert "out of luck" in str(reply.error)


def test_a_cancelled_call_leaves_no_process() -> None:
    async def work(episode: Episode) -> int:
        pid = int((await episode.call("start", {})).text)
        task = asyncio.create_task(episode.call("hang", {}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return pid

    assert not is_running(in_episode(work))


def test_only_programs_that_the_operator_names_are_started() -> None:
    def refused(kind: type[Exception], **config: Any) -> str | None:
        with pytest.raises(kind) as caught:
            check_tools([Tool(class_name="mcp", config=config)], (), (), {"lines": LINES})
        return getattr(caught.value, "param", None)

    assert refused(PermissionDenied, command="other") == "tools[0].config.command"
    assert refused(InvalidRequest, command="lines", arguments=["-v"]) == "tools[0].config.arguments"
    assert refused(InvalidRequest, command="lines", url="http://x") == "tools[0].config.url"
    check_tools([Tool(class_name="mcp", config={"command": "lines"})], (), (), {"lines": LINES})
