"""The model of an evaluation with tools, opened with its tools: an agent."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.sampling import ChatTemplateKwargs, Sampling
from services.core.process.outages import Outages
from services.core.process.reporter import Reporter
from services.evaluator.child_process import ChildContext
from services.evaluator.evaluation.conversations import ConversationStore, ToolConversations
from services.evaluator.evaluation.endpoint import connect, longest_answer
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.rollout.engine import never, open_own_engine
from services.evaluator.serving import LocalModel, RemoteEndpoint
from services.evaluator.tokenizers import chat_folder, weights_folder
from services.rollouts.chat import open_chat_tokens
from services.rollouts.chat.call_format import check_parser_fits
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.log.log import IndexedLog
from services.rollouts.loop import Rollouts
from services.rollouts.models.base import ConversationModel
from services.rollouts.models.messages import MessageModel
from services.rollouts.models.tokens import TokenModel
from services.rollouts.outages import ToolMonitor
from services.rollouts.tools import open_toolbox
from services.rollouts.tools.base import Toolbox
from services.rollouts.tools.health import check_tools_respond


class OpenModel(NamedTuple):
    """A model as each benchmark samples it, and what raises once it is permanently gone."""

    sampled_by: Callable[[BenchmarkSpec], ConversationModel]
    ends: Callable[[], Awaitable[None]]


class Agent:
    """The engine of an evaluation with tools: one model and its tools for all benchmarks."""

    def __init__(
        self, model: OpenModel, toolbox: Toolbox, settings: MultiTurn, store: ConversationStore
    ) -> None:
        self._model = model
        self._toolbox = toolbox
        self._settings = settings
        self._store = store

    def asked_by(self, spec: BenchmarkSpec) -> ToolConversations:
        """The model and its tools as one benchmark samples them."""
        rollouts = Rollouts(self._model.sampled_by(spec), self._toolbox, self._settings)
        return ToolConversations(rollouts, self._store, spec.sampling.seed)

    async def watch(self) -> None:
        """Sync conversations to disk until the model is permanently gone, then raise."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.sync_forever())
            await self._model.ends()


@asynccontextmanager
async def open_agent(
    spec: EvaluationSpec, settings: MultiTurn, context: ChildContext
) -> AsyncIterator[Agent]:
    """The model of an evaluation with its tools, ready inside the block.

    Entering raises ``JobFailed`` for a tool that does not respond and a model that cannot be
    served, and `InvalidRequest` for one whose chat template cannot render tools.
    """
    async with open_toolbox(spec.tools, context.environment) as toolbox:
        with Outages(context.job_dir).preflight():
            await check_tools_respond(spec.tools, toolbox)
        async with _opened(spec, settings, context) as model:
            with IndexedLog(context.job_dir) as log:
                store = ConversationStore(log, context.job_dir, ToolMonitor(context.reporter))
                yield Agent(model, toolbox, settings, store)


def _opened(
    spec: EvaluationSpec, settings: MultiTurn, context: ChildContext
) -> AbstractAsyncContextManager[OpenModel]:
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
) -> AsyncIterator[OpenModel]:
    chats = await asyncio.to_thread(_chats, model, settings, spec)
    async with open_own_engine(model, spec.max_concurrency, job_dir, reporter) as engine:

        def sampled_by(benchmark: BenchmarkSpec) -> TokenModel:
            return TokenModel(
                engine,
                chats[_key(benchmark.chat_template_kwargs)],
                settings,
                rollout_sampling(benchmark.sampling),
                stop_token_ids=engine.stop_token_ids,
                context_length=engine.context_length,
            )

        yield OpenModel(sampled_by, engine.watch)


@asynccontextmanager
async def _remote(
    endpoint: RemoteEndpoint, spec: EvaluationSpec, settings: MultiTurn, key: str | None
) -> AsyncIterator[OpenModel]:
    longest = settings.max_total_response_length or longest_answer(spec)
    async with connect(str(endpoint.base_url), key, longest, spec.max_concurrency) as client:

        def sampled_by(benchmark: BenchmarkSpec) -> MessageModel:
            return MessageModel(
                client,
                endpoint.model,
                settings,
                benchmark.sampling,
                benchmark.chat_template_kwargs,
            )

        yield OpenModel(sampled_by, never)


def _chats(model: LocalModel, settings: MultiTurn, spec: EvaluationSpec) -> dict[str, ChatTokens]:
    """The chat template with the variables of each benchmark."""
    folder, weights = chat_folder(model.source), weights_folder(model.source)
    check_parser_fits(folder, settings)
    variables = [each.chat_template_kwargs for each in spec.benchmarks]
    different = {_key(each): each for each in variables}
    return {key: open_chat_tokens(folder, each, weights=weights) for key, each in different.items()}


def _key(variables: ChatTemplateKwargs) -> str:
    return json.dumps(variables, sort_keys=True)


def rollout_sampling(sampling: Sampling) -> RolloutSampling:
    """The settings shared by both; unset ones are off."""
    given = sampling.model_dump(include=set(RolloutSampling.model_fields), exclude_none=True)
    return RolloutSampling.model_validate(given)
