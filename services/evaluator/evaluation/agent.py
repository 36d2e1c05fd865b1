"""The model of an evaluation with tools, opened with its tools: an agent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from services.contracts.chat_template import ChatTemplateKwargs
from services.contracts.evaluations import Sampling
from services.contracts.multi_turn import MultiTurn, RolloutSampling
from services.core.artifacts import ModelSource
from services.core.process.reporter import Reporter
from services.evaluator.child_process import ChildContext
from services.evaluator.evaluation.conversations import ToolConversations
from services.evaluator.evaluation.endpoint import connect
from services.evaluator.evaluation.spec import EvaluationSpec
from services.evaluator.rollout.chat_files import chat_folder
from services.evaluator.rollout.engine import never, open_own_engine
from services.evaluator.serving import LocalModel, RemoteEndpoint
from services.rollouts.chat import open_chat_tokens
from services.rollouts.chat.call_format import check_parser_fits
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.log.log import IndexedLog
from services.rollouts.loop import Rollouts
from services.rollouts.models.base import ConversationModel
from services.rollouts.models.messages import MessageModel
from services.rollouts.models.tokens import TokenModel
from services.rollouts.tools import open_toolbox
from services.rollouts.tools.health import ToolMonitor, check_tools_respond


class _OpenModel(NamedTuple):
    """A model, and what raises once it is permanently gone."""

    model: ConversationModel
    ends: Callable[[], Awaitable[None]]


@asynccontextmanager
async def open_agent(
    spec: EvaluationSpec, settings: MultiTurn, context: ChildContext
) -> AsyncIterator[ToolConversations]:
    """The model of an evaluation with its tools, ready inside the block.

    Entering raises ``JobFailed`` for a tool that does not respond and a model that cannot be
    served, and `InvalidRequest` for one whose chat template cannot render tools.
    """
    async with open_toolbox(spec.tools, context.environment) as toolbox:
        await check_tools_respond(spec.tools, toolbox)
        async with _opened(spec, settings, context) as opened:
            with IndexedLog(context.job_dir) as log:
                yield ToolConversations(
                    Rollouts(opened.model, toolbox, settings),
                    log,
                    context.job_dir,
                    ToolMonitor(context.reporter),
                    spec.sampling.seed,
                    opened.ends,
                )


def _opened(
    spec: EvaluationSpec, settings: MultiTurn, context: ChildContext
) -> AbstractAsyncContextManager[_OpenModel]:
    if isinstance(spec.model, LocalModel):
        return _local(spec.model, spec, settings, context.job_dir, context.reporter)
    return _remote(spec.model, spec, settings, context.endpoint_key)


@asynccontextmanager
async def _local(
    model: LocalModel,
    spec: EvaluationSpec,
    settings: MultiTurn,
    job_dir: Path,
    reporter: Reporter,
) -> AsyncIterator[_OpenModel]:
    chat = await asyncio.to_thread(_chat_tokens, model, settings, spec.chat_template_kwargs)
    async with open_own_engine(model, spec.max_concurrency, job_dir, reporter) as engine:
        policy = TokenModel(
            engine,
            chat,
            settings,
            rollout_sampling(spec.sampling),
            stop_token_ids=engine.stop_token_ids,
            context_length=engine.context_length,
        )
        yield _OpenModel(policy, engine.watch)


@asynccontextmanager
async def _remote(
    endpoint: RemoteEndpoint, spec: EvaluationSpec, settings: MultiTurn, key: str | None
) -> AsyncIterator[_OpenModel]:
    base_url = str(endpoint.base_url)
    longest = settings.max_total_response_length or spec.sampling.max_tokens
    async with connect(base_url, key, longest, spec.max_concurrency) as client:
        model = MessageModel(
            client, endpoint.model, settings, spec.sampling, spec.chat_template_kwargs
        )
        yield _OpenModel(model, never)


def _chat_tokens(
    model: LocalModel, settings: MultiTurn, variables: ChatTemplateKwargs
) -> ChatTokens:
    folder = chat_folder(ModelSource(path=model.path, hub_id=model.hub_id, revision=model.revision))
    check_parser_fits(folder, settings)
    return open_chat_tokens(folder, variables)


def rollout_sampling(sampling: Sampling) -> RolloutSampling:
    """The settings that both have; what is not set is off."""
    given = sampling.model_dump(include=set(RolloutSampling.model_fields), exclude_none=True)
    return RolloutSampling.model_validate(given)
