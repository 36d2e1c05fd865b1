"""Plays rollouts by agents: each is a session in which the agent asks the policy as it likes.

The trajectory's own tokens are those of the session's last sequence of the agent; the others stay
beside it, so that nothing that was sampled is lost.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.agent_sessions import AgentRecord, AgentSequence, SequenceRole
from services.contracts.rollouts.agents import Agent
from services.contracts.rollouts.trajectories import (
    KEPT_REPLY_CHARACTERS,
    CallOutcome,
    FinishReason,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.core.ids import new_id
from services.core.operator_environment import OperatorEnvironment
from services.inference.causes import cause_of
from services.inference.token_engine.base import EngineFailed
from services.rollouts.activity import Activity, Phase
from services.rollouts.agents.endpoint import AgentEndpoint, reward_in, serving
from services.rollouts.agents.failed import AgentFailed
from services.rollouts.agents.launch import RunningAgent, open_agent
from services.rollouts.agents.session import AgentSession, Policy
from services.rollouts.agents.tree import Node, TurnSequence, recorded
from services.rollouts.loop import ENGINE, MAX_PLAYS
from services.rollouts.prompts import Prompt
from services.rollouts.recording import RolloutEnd

_log = logging.getLogger(__name__)

AGENT = "agent"
"""The source of an agent's failures."""


class AgentRollouts:
    """Plays a prompt as a session of an agent; made by `open_agent_rollouts`."""

    def __init__(
        self,
        agent: Agent,
        running: RunningAgent,
        endpoint: AgentEndpoint,
        policy: Policy,
        activity: Activity,
    ) -> None:
        self._agent = agent
        self._running = running
        self._endpoint = endpoint
        self._policy = policy
        self._activity = activity

    async def play(
        self,
        prompt: Prompt,
        *,
        sample_index: int = 0,
        seed: int | None = None,
        seed_index: int | None = None,
        trajectory_id: str | None = None,
    ) -> Trajectory:
        """Play one rollout to completion, as `Rollouts.play` does.

        A session that the infrastructure failed is played again, in full, up to `MAX_PLAYS` times.
        """
        name = trajectory_id or new_id("traj")
        place = prompt.index if seed_index is None else seed_index
        turn_seed = None if seed is None else f"{seed}/{place}/{sample_index}"
        failures: Counter[str] = Counter()
        for plays in range(1, MAX_PLAYS + 1):
            session = AgentSession(name, self._policy, self._agent.max_model_calls, turn_seed)
            begun, created = asyncio.get_running_loop().time(), time.time()
            ending = await self._play_once(session, prompt)
            seconds = asyncio.get_running_loop().time() - begun
            lost = ending.left_out
            failures[ENGINE] += session.engine_failures
            if lost is None:
                break
            failures[lost.source] += lost.source != ENGINE
            if not lost.cause.may_pass or plays == MAX_PLAYS:
                break
        return _trajectory(
            session,
            prompt,
            ending,
            sample_index=sample_index,
            created_at=created,
            seconds=seconds,
            plays=plays,
            failures=dict(+failures),
        )

    async def _play_once(self, session: AgentSession, prompt: Prompt) -> RolloutEnd:
        with self._endpoint.admitted(session) as key, self._activity.during(Phase.TOOLS) as present:
            session.presence = present
            invitation: JsonObject = {
                "session_id": session.id,
                "base_url": f"{self._endpoint.base_url}/v1",
                "api_key": key,
                "model": self._policy.name,
                "messages": list(prompt.messages),
                "extra": prompt.extra,
            }
            try:
                given = reward_in(await self._running.play(invitation))
            except (AgentFailed, InvalidRequest) as error:
                return _failed(session, error)
            except Exception as error:
                _log.exception("the session of prompt %d failed", prompt.index)
                message = f"{type(error).__name__}: {error}"
                cause = InfrastructureCause.INTERNAL_ERROR
                lost = LeftOut(source=AGENT, cause=cause, message=message)
                return RolloutEnd(FinishReason.INTERNAL_ERROR, message, left_out=lost)
        session.reward = session.reward if given is None else given
        return _ended(session)


def _failed(session: AgentSession, error: Exception) -> RolloutEnd:
    """How a session ended whose agent failed: an engine that failed it is the cause, if one did."""
    if session.failure is not None:
        return _engine_failed(session.failure)
    if isinstance(error, InvalidRequest):
        lost = LeftOut(source=AGENT, cause=InfrastructureCause.UNREADABLE, message=error.message)
        return RolloutEnd(FinishReason.AGENT_FAILED, error.message, left_out=lost)
    if isinstance(error, AgentFailed) and error.cause is not None:
        lost = LeftOut(source=AGENT, cause=error.cause, message=error.message)
        return RolloutEnd(FinishReason.AGENT_FAILED, error.message, left_out=lost)
    # The time that the policy's turns take is the policy's own doing, unless it had none.
    if not len(session.tree):
        message = "the agent's time passed without a turn of the model"
        lost = LeftOut(source=AGENT, cause=InfrastructureCause.TIMED_OUT, message=message)
        return RolloutEnd(FinishReason.AGENT_FAILED, message, left_out=lost)
    return RolloutEnd(FinishReason.TIMED_OUT)


def _engine_failed(error: EngineFailed) -> RolloutEnd:
    cause = cause_of(error) or InfrastructureCause.SERVICE_ERROR
    lost = LeftOut(source=ENGINE, cause=cause, message=error.message)
    return RolloutEnd(FinishReason.ENGINE_FAILED, error.message, error.status, lost)


def _ended(session: AgentSession) -> RolloutEnd:
    """How a session ended whose agent said that it has ended."""
    if session.failure is not None:
        return _engine_failed(session.failure)
    last = session.tree.own()
    if last is None:
        message = "the agent asked the model for nothing"
        lost = LeftOut(source=AGENT, cause=InfrastructureCause.SERVICE_ERROR, message=message)
        return RolloutEnd(FinishReason.AGENT_FAILED, message, left_out=lost)
    was_cut = session.is_full or last.nodes[-1].sampled.finish_reason == "length"
    return RolloutEnd(FinishReason.LENGTH if was_cut else FinishReason.ANSWERED)


def _trajectory(
    session: AgentSession,
    prompt: Prompt,
    ending: RolloutEnd,
    *,
    sample_index: int,
    created_at: float,
    seconds: float,
    plays: int,
    failures: dict[str, int],
) -> Trajectory:
    seen: set[int] = set()
    own = session.tree.own()
    tokens = recorded(own, seen) if own else None
    others = _recorded([each for each in session.tree.sequences() if each != own], seen)
    root = own.nodes[0] if own else None
    turns = list(_turns(own)) if own else []
    return Trajectory(
        id=session.id,
        prompt_index=prompt.index,
        sample_index=sample_index,
        messages=list(root.messages if root else prompt.messages),
        tools=list(root.tools if root else ()),
        gold=list(prompt.gold),
        extra=prompt.extra,
        prompt_token_ids=tokens.prompt_token_ids if tokens else [],
        response_token_ids=tokens.response_token_ids if tokens else [],
        response_mask=tokens.response_mask if tokens else [],
        log_probs=tokens.log_probs if tokens else [],
        policy_versions=tokens.policy_versions if tokens else [],
        turns=turns,
        finish_reason=ending.reason,
        error=ending.error,
        status_code=ending.status,
        left_out=ending.left_out,
        created_at=created_at,
        seconds=seconds,
        model_seconds=sum(turn.seconds for turn in turns),
        tool_seconds=max(0.0, seconds - sum(turn.seconds for turn in turns)),
        plays=plays,
        infrastructure_failures=failures,
        agent=AgentRecord(
            model_calls=len(session.tree),
            reward=session.reward,
            other_sequences=others,
            messages=own.messages if own else [],
            prompt=list(prompt.messages),
            notes=list(session.notes),
        ),
    )


def _recorded(sequences: Sequence[TurnSequence], seen: set[int]) -> list[AgentSequence]:
    """The sequences in their order. A turn that several have is one of the agent's, if one of them
    is: what was discarded is not trained on."""
    agents_first = sorted(sequences, key=lambda each: each.role is not SequenceRole.AGENT)
    made = {each.nodes[-1]: recorded(each, seen) for each in agents_first}
    return [made[each.nodes[-1]] for each in sequences]


def _turns(sequence: TurnSequence) -> list[Turn]:
    """The turns of the trajectory's own sequence; the replies that follow a turn's calls are what
    the agent sent next."""
    turns, start = [], 0
    following: list[Node | None] = [*sequence.nodes[1:], None]
    for node, after in zip(sequence.nodes, following, strict=True):
        inserted = len(after.inserted) if after else 0
        count = len(node.sampled.token_ids)
        turns.append(
            Turn(
                text=node.text,
                token_start=start,
                token_count=count,
                inserted_count=inserted,
                finish_reason=node.sampled.finish_reason,
                calls=_calls(node, after),
                started=node.started,
                seconds=node.seconds,
            )
        )
        start += count + inserted
    return turns


def _calls(node: Node, after: Node | None) -> list[ToolCallRecord]:
    """The calls of a turn with what the agent replied; one without a reply was not run."""
    replies = {
        str(message.get("tool_call_id")): str(message.get("content") or "")
        for message in (after.messages if after else ())
        if message.get("role") == "tool"
    }
    return [
        ToolCallRecord(
            name=call.name,
            arguments=call.arguments,
            outcome=CallOutcome.ANSWERED if call.id in replies else CallOutcome.DROPPED,
            reply=replies[call.id][:KEPT_REPLY_CHARACTERS] if call.id in replies else None,
            reply_characters=len(replies.get(call.id, "")),
            shown=replies.get(call.id),
        )
        for call in node.calls
    ]


@asynccontextmanager
async def open_agent_rollouts(
    agent: Agent,
    policy: Policy,
    environment: OperatorEnvironment,
    *,
    concurrency: int,
    activity: Activity,
) -> AsyncIterator[AgentRollouts]:
    """Rollouts by an agent, which reaches the policy at the operator's agent host; raises
    TemperError."""
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(open_agent(agent, environment, concurrency))
        endpoint = AgentEndpoint(policy.name)
        await stack.enter_async_context(serving(endpoint, environment.agent_host))
        yield AgentRollouts(agent, running, endpoint, policy, activity)
