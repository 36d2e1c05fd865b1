"""Builds reward components and graders from their settings."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import assert_never

from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.failures import InfrastructureCause
from services.contracts.origins import origin_of
from services.contracts.rewards.graders import (
    GoldGrader,
    MathGrader,
    MeaningGrader,
    TokenF1Grader,
)
from services.contracts.rewards.openai_graders import (
    JudgeModel,
    LabelModelGrader,
    MultiGrader,
    OpenAiGrader,
    PythonGrader,
    ScoreModelGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from services.contracts.rewards.rewards import (
    AgentReward,
    CallableReward,
    CodeTestsReward,
    EnvironmentReward,
    ExtensionReward,
    HttpReward,
    JudgeReward,
    PairwiseJudgeReward,
    RetoolReward,
    Reward,
    RewardModelReward,
    SearchEmReward,
    WeightedReward,
)
from services.core.extensions import blamed_on
from services.core.operator_environment import OperatorEnvironment
from services.core.process.worker_pool import FunctionFailed, FunctionPool, check_function_allowed
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed
from services.rewards.agent_score import AgentScore
from services.rewards.check import check_judge_name
from services.rewards.code_tests import COMPILE_SECONDS, LONGEST_SECONDS, CodeTests
from services.rewards.code_tests import ROUTE as RUN_CASES
from services.rewards.extension_score import ExtensionScore
from services.rewards.families import (
    FamilyReward,
    RewardContext,
    family_and_settings,
)
from services.rewards.functions import FunctionScore, ServiceScore
from services.rewards.graders.bounded_integer import BoundedInteger, judge_of_wrong
from services.rewards.graders.gold import GoldMatch
from services.rewards.graders.meaning import MathMatch, TokenF1
from services.rewards.graders.model_graders import LabelModel, ScoreModel
from services.rewards.graders.multi import Formula, Multi
from services.rewards.graders.python_grader import ROUTE as RUN_CODE
from services.rewards.graders.python_grader import SECONDS, PythonProgram
from services.rewards.graders.text import StringCheck, TextSimilarity
from services.rewards.interface import Component, RewardFailed
from services.rewards.judge import Judge, JudgeScore, connect_judge
from services.rewards.mathematics.equality import Equality
from services.rewards.pairwise_judge import PairwiseJudge
from services.rewards.reward_model import RewardModel
from services.rewards.rules import Retool, SearchEm
from services.rewards.sandbox import connect_sandbox
from services.rewards.step_score import StepScore
from services.rewards.verdicts import Verdicts

PROCESSES = 4
"""Concurrent calls of each user function; further calls wait."""
CONNECTIONS = 64
MAX_BACKOFF_SECONDS = 10.0
RETRIED = frozenset({429, 500, 502, 503, 504})
RETRIED_KINDS = frozenset({FailureKind.BROKEN_OFF, FailureKind.TIMED_OUT})
_LASTING = (None, InfrastructureCause.MISCONFIGURED)
"""Causes with which the sandbox would answer every sample: the limits are refused, or the language
is not installed."""


class RewardFactory:
    """Builds components; their connections and processes are closed with ``stack``."""

    def __init__(self, environment: OperatorEnvironment, stack: AsyncExitStack) -> None:
        self._environment = environment
        self._stack = stack
        self._verdicts: Verdicts | None = None
        self._probes: list[Callable[[], Awaitable[None]]] = []
        self._programs: list[Callable[[], Awaitable[None]]] = []

    async def probe(self, *, outages: bool) -> None:
        """Check, without a sample, that the sandbox takes what the components ask of it, and with
        ``outages`` that all services and functions behind them respond.

        Raises `JobFailed`. Reward models are not loaded.
        """
        try:
            if outages:
                for probe in self._probes:
                    await probe()
            for probe in self._programs:
                await probe()
        except (ServiceFailed, FunctionFailed) as error:
            message = f"a reward or grader does not respond: {error.message}"
            raise JobFailed(message, code="reward_unavailable") from error
        except RewardFailed as error:
            if outages or error.cause in _LASTING:
                message = f"a reward or grader cannot be used: {error.message}"
                raise JobFailed(message, code="reward_unavailable") from error

    async def component(self, reward: Reward, param: str) -> Component:  # noqa: PLR0911, PLR0912 - one return for each type
        """Build the component of a reward, which is the field ``param`` of its request.

        Contacts nothing. Raises `InvalidRequest` and `PermissionDenied`.
        """
        match reward:
            case SearchEmReward():
                return SearchEm(reward)
            case RetoolReward():
                return await self._retool(reward)
            case AgentReward():
                return AgentScore()
            case EnvironmentReward():
                return StepScore(reward)
            case HttpReward():
                return await self._service(reward)
            case CallableReward():
                return await self._function(reward, param)
            case RewardModelReward():
                return await self._reward_model(reward, param)
            case CodeTestsReward():
                return await self._code_tests(reward)
            case PairwiseJudgeReward():
                return PairwiseJudge(reward, await self._judge(reward.model, param))
            case JudgeReward():
                return JudgeScore(reward, await self._judge(reward.model, param))
            case _ if isinstance(reward, GoldGrader):
                return GoldMatch(reward)
            case MathGrader() | TokenF1Grader():
                return await self._meaning(reward)
            case _ if isinstance(reward, FamilyReward):
                return await self._of_family(reward, param)
            case _:
                return await self._grader(reward, param)

    async def bounded_integer(
        self, bounds: tuple[int, int], judge: JudgeModel | None = None, param: str = "judge"
    ) -> BoundedInteger:
        """A grader of boxed integers in an inclusive range, with an optional judge."""
        mathematics = await self._stack.enter_async_context(Equality())
        if judge is None:
            return BoundedInteger(bounds, mathematics)
        asked = LabelModel(judge_of_wrong(judge), await self._judge(judge, param))
        return BoundedInteger(bounds, mathematics, asked)

    async def _meaning(self, grader: MeaningGrader) -> Component:
        match grader:
            case MathGrader():
                return MathMatch(grader, await self._stack.enter_async_context(Equality()))
            case TokenF1Grader():
                return TokenF1()
            case _:
                assert_never(grader)

    async def _of_family(self, reward: FamilyReward, param: str) -> Component:
        family, settings = family_and_settings(reward, param)
        context = RewardContext(self._environment, param)
        if not isinstance(reward, ExtensionReward):
            return await self._stack.enter_async_context(family.open(settings, context))
        with blamed_on(reward.name, f"{param}.name"):
            component = await self._stack.enter_async_context(family.open(settings, context))
        return ExtensionScore(reward.name, component)

    async def _grader(self, grader: OpenAiGrader, param: str) -> Component:
        match grader:
            case StringCheckGrader():
                return StringCheck(grader)
            case TextSimilarityGrader():
                return TextSimilarity(grader)
            case ScoreModelGrader():
                return ScoreModel(grader, await self._judge(grader.model, param))
            case LabelModelGrader():
                return LabelModel(grader, await self._judge(grader.model, param))
            case PythonGrader():
                sandbox = connect_sandbox(self._environment, RUN_CODE, SECONDS)
                program = PythonProgram(grader, await self._opened(sandbox))
                self._programs.append(program.probe)
                return program
            case MultiGrader():
                return await self._multi(grader, param)
            case _:
                assert_never(grader)

    async def _multi(self, multi: MultiGrader, param: str) -> Multi:
        graders = {
            name: await self._grader(grader, f"{param}.graders.{name}")
            for name, grader in multi.by_variable.items()
        }
        return Multi(Formula.parse(multi.calculate_output), graders)

    async def _retool(self, reward: RetoolReward) -> Retool:
        if reward.equivalence == "exact":
            return Retool(reward, None)
        return Retool(reward, await self._stack.enter_async_context(Equality()))

    async def _service(self, reward: HttpReward) -> ServiceScore:
        attempts = self._environment.attempts
        service = JsonService(
            str(reward.url),
            self._environment.key_of(origin_of(reward.url)),
            timeout=reward.timeout,
            retries=Retries(
                attempts, attempts * (reward.timeout + MAX_BACKOFF_SECONDS), RETRIED, RETRIED_KINDS
            ),
            connections=CONNECTIONS,
        )
        return ServiceScore(str(reward.url), await self._opened(service))

    async def _function(self, reward: CallableReward, param: str) -> FunctionScore:
        check_function_allowed(
            reward.function, self._environment.allowed_callables, f"{param}.function"
        )
        processes = FunctionPool(reward.function, PROCESSES, self._environment.callables_folder)
        self._probes.append(processes.start)
        return FunctionScore(reward, await self._stack.enter_async_context(processes))

    async def _reward_model(self, reward: RewardModelReward, param: str) -> RewardModel:
        folder = self._environment.reward_models.get(reward.model)
        python = self._environment.model_python
        if folder is None or python is None:
            message = (
                f"reward model {reward.model!r} is not available; only jobs load reward models"
            )
            raise InvalidRequest(message, param=f"{param}.model")
        trusted = reward.model in self._environment.trusted_reward_models
        model = RewardModel(reward, python, folder, trusted=trusted)
        return await self._stack.enter_async_context(model)

    async def _code_tests(self, reward: CodeTestsReward) -> CodeTests:
        sandbox = connect_sandbox(
            self._environment, RUN_CASES, 2 * COMPILE_SECONDS + LONGEST_SECONDS
        )
        tests = CodeTests(reward, await self._opened(sandbox))
        self._programs.append(tests.probe)
        return tests

    async def _judge(self, model: JudgeModel, param: str) -> Judge:
        if isinstance(model, str):
            check_judge_name(model, self._environment.judge_models, f"{param}.model")
            model = self._environment.judge_models[model]
        key = self._environment.key_of(model.origin)
        client = connect_judge(str(model.base_url), key, self._environment.attempts)
        await self._opened(client)
        return Judge(client, model.model, str(model.base_url), self._kept_verdicts())

    async def _opened(self, service: JsonService) -> JsonService:
        self._probes.append(service.reach)
        return await self._stack.enter_async_context(service)

    def _kept_verdicts(self) -> Verdicts | None:
        """The file of verdicts, opened once."""
        if self._verdicts is None and self._environment.verdicts is not None:
            self._verdicts = self._stack.enter_context(Verdicts(self._environment.verdicts))
        return self._verdicts


async def check_rewards_respond(
    rewards: Sequence[WeightedReward], environment: OperatorEnvironment, *, outages: bool
) -> None:
    """Raise `JobFailed` if the sandbox refuses what the rewards ask of every sample, or with
    ``outages`` if a service or function behind them does not respond."""
    async with AsyncExitStack() as stack:
        factory = RewardFactory(environment, stack)
        for position, each in enumerate(rewards):
            await factory.component(each.reward, f"rewards[{position}].reward")
        await factory.probe(outages=outages)
