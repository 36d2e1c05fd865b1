"""What plays a job's rollouts: Temper's own loop, or an agent."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from services.contracts.rollouts.agents import Agent
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.inference.token_engine.base import TokenEngine
from services.rollouts.activity import Activity
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.parsers import parser_of
from services.rollouts.prompts import Prompt
from services.rollouts.tools.base import Toolbox


class RolloutPlayer(Protocol):
    """Plays rollouts, many concurrently."""

    async def play(
        self,
        prompt: Prompt,
        *,
        sample_index: int = 0,
        seed: int | None = None,
        seed_index: int | None = None,
        trajectory_id: str | None = None,
    ) -> Trajectory:
        """Play one rollout to completion; see `Rollouts.play`."""
        ...


@dataclass(frozen=True)
class RolloutSettings:
    """How a job plays: its conversations' settings, and the agent, if one plays them.

    ``model`` is the name that an agent reads; ``max_concurrency`` bounds the sessions.
    """

    multi_turn: MultiTurn
    sampling: RolloutSampling
    toolbox: Toolbox
    agent: Agent | None
    model: str
    max_concurrency: int
    activity: Activity


@asynccontextmanager
async def open_rollouts(
    playing: RolloutSettings,
    engine: TokenEngine,
    chat: ChatTokens,
    environment: OperatorEnvironment,
    *,
    stop_token_ids: Sequence[int] = (),
    context_length: int | None = None,
) -> AsyncIterator[RolloutPlayer]:
    """The player of a job; raises TemperError if an agent's endpoint cannot be opened."""
    multi_turn, sampling = playing.multi_turn, playing.sampling
    if playing.agent is None:
        model = TokenModel(
            engine,
            chat,
            multi_turn,
            sampling,
            stop_token_ids=stop_token_ids,
            context_length=context_length,
        )
        yield Rollouts(model, playing.toolbox, multi_turn, playing.activity)
        return
    # A job without an agent does not load the web framework of its endpoint.
    from services.rollouts.agents.play import open_agent_rollouts  # noqa: PLC0415
    from services.rollouts.agents.session import Policy  # noqa: PLC0415

    policy = Policy(
        name=playing.model,
        engine=engine,
        chat=chat,
        parser=parser_of(multi_turn.tool_parser_format),
        sampling=sampling,
        stop_token_ids=tuple(dict.fromkeys((*chat.stop_token_ids, *stop_token_ids))),
        budget=multi_turn.max_total_response_length or sampling.max_tokens,
        context_length=context_length,
    )
    async with open_agent_rollouts(
        playing.agent,
        policy,
        environment,
        concurrency=playing.max_concurrency,
        activity=playing.activity,
    ) as rollouts:
        yield rollouts
