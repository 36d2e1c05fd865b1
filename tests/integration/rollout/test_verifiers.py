"""An environment of verifiers plays rollouts as an agent, in an installation of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.contracts.base import JsonObject
from services.contracts.rollouts.agents import CommandAgent
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.rollouts.agents.command import RunningCommand
from tests.support.rollouts import saying
from tests.unit.rollouts.agents.agents import play_by

pytestmark = pytest.mark.long
EXAMPLE = Path(__file__).parents[3] / "examples" / "verifiers"
CONFIG: JsonObject = {
    "taskset": {"id": "addition_v1"},
    "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}},
}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What an operator allows in TEMPER_AGENT_COMMANDS."""
    folder = tmp_path_factory.mktemp("verifiers")
    binaries = folder / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    packages = ["verifiers==0.4.0", "uv"]
    install = [
        str(binaries / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        *packages,
    ]
    subprocess.run(install, check=True, timeout=1800)
    return command_of(binaries, folder / "cache")


def command_of(binaries: Path, cache: Path) -> list[str]:
    variables = {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": str(EXAMPLE),
        "UV_CACHE_DIR": str(cache),
        "SSL_CERT_FILE": os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"),
    }
    given = [f"{name}={value}" for name, value in variables.items()]
    return ["env", *given, str(binaries / "python"), str(EXAMPLE / "play.py")]


@pytest.mark.parametrize(("said", "reward"), [("It is 3.<end>", 1.0), ("It is 4.<end>", 0.0)])
def test_an_environment_of_verifiers_plays_and_rewards(
    command: list[str], said: str, reward: float
) -> None:
    played = played_by(command, said)

    assert played.finish_reason is FinishReason.ANSWERED, played.error
    assert played.messages[-1]["content"] == "What is 1 + 2?"
    assert played.turns[-1].text == said
    assert played.agent is not None
    assert (played.agent.reward, played.agent.model_calls) == (reward, 1)


def played_by(command: list[str], said: str) -> Trajectory:
    agent = CommandAgent(command="verifiers", arguments=CONFIG)

    async def plays(session: JsonObject) -> JsonObject:
        async with RunningCommand(command, agent) as running:
            return await running.play(session)

    return play_by(plays, saying(said), seed=None)
