"""An environment behind the published package of OpenEnv, which has an installation of its own."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling, Tool
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.tools import open_toolbox
from services.rollouts.tools.health import check_tools_respond
from tests.support.processes import free_port
from tests.support.rollouts import END_TEXT, CharacterChat, ScriptedEngine, hermes, question
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long
PROGRAM = Path(__file__).parents[2] / "support" / "programs" / "openenv_server.py"
SESSIONS = 2


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("openenv")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "openenv==0.10.0"]
    subprocess.run(install, check=True, timeout=1200)
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        try:
            return httpx.get(f"{url}/health").is_success
        except httpx.TransportError:
            return False

    with subprocess.Popen([python, PROGRAM, str(port), str(SESSIONS)]) as server:
        try:
            wait_for(is_ready, "the environment's server")
            yield url
        finally:
            server.kill()


def test_rollouts_play_in_the_published_environment(environment: str) -> None:
    config = {"url": environment, "reset_fields": ["greeting"], "timeout": 120}
    tool = Tool(class_name="openenv", config=config)
    settings = MultiTurn(multi_turn_enable=True)
    turns = [hermes("echo", text="hello"), hermes("echo"), hermes("echo", text="goodbye")]
    engine = ScriptedEngine(lambda text: turns[text.count("assistant:") - 1] + END_TEXT)

    async def play() -> list[Trajectory]:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            model = TokenModel(engine, CharacterChat(), settings, RolloutSampling(max_tokens=4000))
            rollouts = Rollouts(model, toolbox, settings)
            # More than the server has room for.
            prompts = [question(greeting=f"{number} ") for number in range(3 * SESSIONS)]
            return list(await asyncio.gather(*map(rollouts.play, prompts)))

    for number, one in enumerate(asyncio.run(play())):
        assert one.finish_reason is FinishReason.ENVIRONMENT_DONE, one.error
        assert one.plays == 1
        assert one.tools[0]["function"]["parameters"]["properties"]["text"]["type"] == "string"
        first, wrong, last = (turn.calls[0] for turn in one.turns)
        assert first.shown == f"{number} hello"
        assert wrong.outcome.is_error  # of the arguments, by the schema that the server told
        assert last.reply == f"{number} goodbye"
        assert one.environments[0].rewards == [5.0, 7.0]
    wait_for(lambda: httpx.get(f"{environment}/open").json() == 0, "the end of all sessions")
