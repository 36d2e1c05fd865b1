"""Run one conversation in a test."""

from collections.abc import Mapping
from typing import Any

from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import Trajectory
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.prompts import Prompt
from tests.support.rollouts import (
    CharacterChat,
    FunctionToolbox,
    ScriptedEngine,
    ToolFunction,
    echo,
    question,
    saying,
)
from tests.support.virtual_time import run_in_virtual_time

ECHO: Mapping[str, ToolFunction] = {"echo": echo}


def rollouts(
    engine: ScriptedEngine,
    tools: FunctionToolbox | None = None,
    *,
    sampling: RolloutSampling | None = None,
    context_length: int | None = None,
    **settings: Any,
) -> Rollouts:
    """Multi-turn rollouts with generous limits."""
    given = {"multi_turn_enable": True, "max_total_response_length": 100_000, **settings}
    multi_turn = MultiTurn.model_validate(given)
    model = TokenModel(
        engine,
        CharacterChat(),
        multi_turn,
        sampling or RolloutSampling(max_tokens=1000),
        context_length=context_length,
    )
    return Rollouts(model, tools or FunctionToolbox(ECHO), multi_turn)


def play(
    *turns: str,
    tools: FunctionToolbox | None = None,
    prompt: Prompt | None = None,
    sampling: RolloutSampling | None = None,
    context_length: int | None = None,
    **settings: Any,
) -> Trajectory:
    """The trajectory of a model that says ``turns``."""
    player = rollouts(
        saying(*turns),
        tools,
        sampling=sampling,
        context_length=context_length,
        **settings,
    )
    return run_in_virtual_time(player.play(prompt or question()))
