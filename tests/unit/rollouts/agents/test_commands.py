"""Programs as agents: what a session's process is given, how it fails, and that nothing is left."""

import asyncio
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import PermissionDenied
from services.contracts.failures import InfrastructureCause as Cause
from services.contracts.rollouts.agents import CommandAgent
from services.contracts.rollouts.trajectories import CallOutcome, Trajectory
from services.core.process.runtimes import MARKER
from services.core.process.supervised import tree_processes
from services.rollouts.agents.command import RunningCommand
from services.rollouts.agents.failed import AgentFailed
from services.rollouts.agents.launch import check_agent
from tests.support.rollouts import CharacterChat, saying
from tests.support.waiting import wait_for
from tests.unit.rollouts.agents.agents import CALL, play_by

SAID = f"I add.{CALL}", "It is 3.<end>"
WHOLE = f"I add.{CALL}tool:3<end>assistant:It is 3.<end>"
INVITATION: JsonObject = {
    "session_id": "traj-1",
    "base_url": "http://127.0.0.1:9/v1",
    "api_key": "sk-1",
    "model": "policy",
    "messages": [],
    "extra": None,
}

WITH_A_CLIENT = """
import json, os, openai, httpx
session = json.load(open(os.environ["TEMPER_SESSION"]))
assert sorted(os.listdir()) == ["output.log", "session.json"], os.listdir()
tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object",
        "properties": {}}}}
client, messages = openai.OpenAI(max_retries=0), session["messages"]
while True:
    asked = client.chat.completions.create(
        model=os.environ["TEMPER_MODEL"], messages=messages, tools=[tool])
    message = asked.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        given = json.loads(call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": call.id,
                         "content": str(given["a"] + given["b"])})
httpx.post(os.environ["OPENAI_BASE_URL"] + "/reward", json={"reward": session["arguments"]["won"]},
           headers={"authorization": "Bearer " + session["api_key"]}).raise_for_status()
"""

IN_A_SHELL = """
ask() { curl -sf -H "x-api-key: $ANTHROPIC_API_KEY" "$ANTHROPIC_BASE_URL$1" -d "$2"; }
tool='{"name": "add", "input_schema": {"type": "object"}}'
user='{"role": "user", "content": "1+2?"}'
first=$(ask /v1/messages "{\\"max_tokens\\": 500, \\"tools\\": [$tool], \\"messages\\": [$user]}")
said=$(printf %s "$first" | sed 's/.*"content":\\(.*\\),"stop_reason".*/\\1/')
id=$(printf %s "$first" | sed 's/.*"type":"tool_use","id":"\\([^"]*\\)".*/\\1/')
reply="{\\"type\\": \\"tool_result\\", \\"tool_use_id\\": \\"$id\\", \\"content\\": \\"3\\"}"
turns="$user, {\\"role\\": \\"assistant\\", \\"content\\": $said}"
turns="$turns, {\\"role\\": \\"user\\", \\"content\\": [$reply]}"
ask /v1/messages "{\\"max_tokens\\": 500, \\"tools\\": [$tool], \\"messages\\": [$turns]}" &&
ask /v1/reward '{"reward": 0.5}'
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(program)]


def command_agent(**fields: Any) -> CommandAgent:
    return CommandAgent.model_validate({"command": "adder", **fields})


def played_by(command: list[str], agent: CommandAgent) -> Trajectory:
    async def plays(session: JsonObject) -> JsonObject:
        async with RunningCommand(command, agent) as running:
            return await running.play(session)

    return play_by(plays, saying(*SAID))


def test_a_program_with_an_unmodified_client_plays_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_API_KEY", "secret")
    program = f"import os; assert 'secret' not in os.environ.values(){WITH_A_CLIENT}"

    played = played_by(python(program), command_agent(arguments={"won": 0.25}))

    assert CharacterChat().text(played.response_token_ids) == WHOLE, played.error
    assert [call.outcome for turn in played.turns for call in turn.calls] == [CallOutcome.ANSWERED]
    assert played.agent is not None
    assert played.agent.reward == 0.25


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_shell_script_plays_a_session() -> None:
    played = played_by(["sh", "-c", IN_A_SHELL], command_agent())

    assert CharacterChat().text(played.response_token_ids) == WHOLE, played.error
    assert played.agent is not None
    assert played.agent.reward == 0.5


@pytest.mark.parametrize(
    ("command", "cause", "message"),
    [
        (
            python("print('no key'); raise SystemExit(3)"),
            Cause.SERVICE_ERROR,
            "exit code 3: no key",
        ),
        (python("import os; os.kill(os.getpid(), 9)"), Cause.SERVICE_ERROR, "exit code -9"),
        (["/no/such/program"], Cause.MISCONFIGURED, "could not be started"),
        (python("import time; time.sleep(600)"), None, "did not end within 1 s"),
    ],
    ids=["exit code", "signal", "no program", "slow"],
)
def test_whose_failure_a_session_is(command: list[str], cause: Cause | None, message: str) -> None:
    async def play() -> None:
        async with RunningCommand(command, command_agent(timeout=1)) as running:
            await running.play(INVITATION)

    with pytest.raises(AgentFailed, match=message) as failed:
        asyncio.run(play())

    assert failed.value.cause is cause


def test_a_cancelled_session_leaves_neither_process_nor_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv(MARKER, tree := f"commands-{os.getpid()}")
    forks = "import os, time\nif not os.fork(): os.setsid()\nopen('begun', 'w').close()\n"

    async def play() -> None:
        async with RunningCommand(python(f"{forks}time.sleep(600)"), command_agent()) as running:
            session = asyncio.create_task(running.play(INVITATION))
            await asyncio.to_thread(
                wait_for, lambda: next(tmp_path.glob("*/begun"), None), "the command runs"
            )
            assert tree_processes(tree)
            session.cancel()
            with pytest.raises(asyncio.CancelledError):
                await session

    asyncio.run(play())

    assert (tree_processes(tree), list(tmp_path.iterdir())) == ([], [])


def test_only_commands_of_the_operator_are_run() -> None:
    check_agent(command_agent(), (), (), {"adder": ["/bin/true"]})
    with pytest.raises(PermissionDenied, match="TEMPER_AGENT_COMMANDS") as refused:
        check_agent(command_agent(command="/bin/sh"), (), (), {"adder": ["/bin/true"]})

    assert refused.value.param == "agent.command"
