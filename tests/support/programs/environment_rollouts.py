"""Plays rollouts in an environment until it is killed: ``... environment_rollouts URL``."""

import asyncio
import sys

from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling, Tool
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.tools import open_toolbox
from services.rollouts.tools.health import check_tools_respond
from tests.support.rollouts import END_TEXT, CharacterChat, ScriptedEngine, hermes, question

AT_ONCE = 40


async def play_forever(url: str) -> None:
    """Play rollouts of several steps, many at once."""
    tool = Tool(class_name="openenv", config={"url": url})
    settings = MultiTurn(multi_turn_enable=True)
    sampling = RolloutSampling(max_tokens=4000)
    engine = ScriptedEngine(lambda _: hermes("add", by=2) + END_TEXT)
    async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
        await check_tools_respond([tool], toolbox)
        model = TokenModel(engine, CharacterChat(), settings, sampling)
        rollouts = Rollouts(model, toolbox, settings)

        async def play() -> None:
            while True:
                await rollouts.play(question())

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(play())


if __name__ == "__main__":
    asyncio.run(play_forever(sys.argv[1]))
