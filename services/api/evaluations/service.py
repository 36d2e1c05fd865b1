"""Evaluation requests: validation, the job, and its view."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy.orm import Session

from services.api.graders.service import check_grader
from services.api.jobs.view import state_fields
from services.api.models.service import check_endpoint, require_loadable, resolve_for_load
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.evaluation.benchmark_entries import BenchmarkEntry
from services.contracts.evaluation.benchmarks import Benchmark
from services.contracts.evaluation.evaluations import BenchmarkOutcome, CreateEvaluation, Evaluation
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.jobs import JobKind
from services.contracts.rewards.rewards import EnvironmentReward, ExtensionReward
from services.contracts.rollouts.multi_turn import ENVIRONMENT, MultiTurn
from services.contracts.sampling import Sampling
from services.jobs.job import REMOTE_SLOT, Job, NewJob
from services.jobs.store import create_job
from services.metrics.macro_average import macro_average
from services.metrics.main_metric import main_metric
from services.models.registry import require_file
from services.rewards.families import grader_metric
from services.rewards.graders.bounded_integer import judge_of_wrong
from services.rollouts.chat.call_format import check_parser_fits
from services.rollouts.settings import validate_multi_turn
from services.rollouts.tools import check_tools


def create_evaluation(session: Session, body: CreateEvaluation, settings: ApiSettings) -> Job:
    """Check everything that needs no file content, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for a remote model or
    a grader that the operator's settings do not allow.
    """
    if isinstance(body.model, str):
        require_loadable(session, body.model, settings)
    else:
        check_endpoint(body.model, settings.allowed_endpoints)
    for field, file in body.file_references.items():
        require_file(session, file, field)
    for number, each in enumerate(body.by_benchmark().values()):
        given: CreateEvaluation | BenchmarkEntry = body
        if body.benchmarks is not None:
            given = body.benchmarks[number]
        place = "" if given is body else f"benchmarks.{number}."
        check_grader(each.grader, settings, _grader_field(given, place))
        if each.judge is not None:
            check_grader(judge_of_wrong(each.judge), settings, f"{place}judge")
    _check_tool_use(session, body, settings)
    gpus = body.gpus if isinstance(body.model, str) else REMOTE_SLOT
    if body.multi_turn is not None:
        # With the turns that tools enable, so that the stored request can be sent again.
        body = body.model_copy(update={"multi_turn": body.conversation})
    return create_job(session, NewJob.of(JobKind.EVALUATION, body, gpus))


def _grader_field(given: CreateEvaluation | BenchmarkEntry, place: str) -> str:
    """The field that set the grader of a benchmark, whose own fields begin with ``place``."""
    if isinstance(given.benchmark, Benchmark):
        return f"{place}benchmark.grader"
    return "grader" if given.grader is None else f"{place}grader"


_PENALTIES = ("presence_penalty", "frequency_penalty", "repetition_penalty")


def _check_tool_use(session: Session, body: CreateEvaluation, settings: ApiSettings) -> None:
    """Check the tools of an evaluation, if it has any, and the limits of its conversations.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for a tool that the
    operator's settings do not allow.
    """
    conversation = body.conversation
    _check_environment(body)
    if conversation is None:
        if body.multi_turn is not None:
            raise InvalidRequest("conversations need tools to call", param="multi_turn")
        return
    given = body.multi_turn or MultiTurn()
    for _, sampling in _samplings(body):
        validate_multi_turn(conversation, sampling)
    check_tools(
        body.tools,
        settings.allowed_endpoints,
        settings.allowed_callables,
        settings.mcp_commands,
        gateway_origins=settings.gateway_origins,
    )
    if isinstance(body.model, str):
        _check_registered(session, body.model, body, conversation, settings)
    elif given.tool_parser_format != MultiTurn().tool_parser_format:
        raise InvalidRequest(
            "the endpoint of a remote model parses its calls",
            param="multi_turn.tool_parser_format",
        )


def _check_environment(body: CreateEvaluation) -> None:
    """Only an environment rewards steps."""
    entries = body.benchmarks or []
    fields = [(f"benchmarks.{place}.grader", each.grader) for place, each in enumerate(entries)]
    for field, grader in [("grader", body.grader), *fields]:
        if isinstance(grader, EnvironmentReward) and not any(
            tool.class_name == ENVIRONMENT for tool in body.tools
        ):
            message = f"a grader of type environment needs a tool of class {ENVIRONMENT}"
            raise InvalidRequest(message, param=field)


def _samplings(body: CreateEvaluation) -> Iterator[tuple[str, Sampling]]:
    """The sampling settings of the benchmarks, each with its field in the request."""
    entries = body.benchmarks or []
    if not entries or any(entry.sampling is None for entry in entries):
        yield "sampling", body.sampling
    for number, entry in enumerate(entries):
        if entry.sampling is not None:
            yield f"benchmarks.{number}.sampling", entry.sampling


def _check_registered(
    session: Session,
    name: str,
    body: CreateEvaluation,
    conversation: MultiTurn,
    settings: ApiSettings,
) -> None:
    for field, sampling in _samplings(body):
        for penalty in _PENALTIES:
            if (given := getattr(sampling, penalty)) is not None:
                is_shared = given == getattr(body.sampling, penalty)
                raise InvalidRequest(
                    "a registered model is sampled without penalties in conversations with tools",
                    param=f"{'sampling' if is_shared else field}.{penalty}",
                )
    try:
        model = resolve_for_load(session, name, settings)
    except (InvalidRequest, NotFound):
        return  # the job reports what is missing: it may exist by then
    folder = model.tokenizer_folder
    if folder is not None and folder.is_dir():
        check_parser_fits(folder, conversation)


def evaluation_view(job: Job) -> Evaluation:
    """The wire view of an evaluation job."""
    request = CreateEvaluation.model_validate(job.request)
    result = job.result or {}
    if request.benchmarks is None:
        only = _outcome(None, request, result.get("metrics"))
        own = {name: getattr(only, name) for name in type(only).model_fields.keys() - {"name"}}
        return Evaluation(
            model=request.model,
            tools=request.tools,
            multi_turn=request.conversation,
            **own,
            **_reuse(result),
            **state_fields(job),
        )
    found = result.get("benchmarks") or {}
    outcomes = [
        _outcome(name, each, found.get(name)) for name, each in request.by_benchmark().items()
    ]
    return Evaluation(
        model=request.model,
        benchmarks=outcomes,
        macro_average=macro_average(outcomes),
        split=request.split,
        prediction=request.prediction,
        keep_reasoning=request.keep_reasoning,
        sampling=request.sampling,
        tools=request.tools,
        multi_turn=request.conversation,
        samples_per_item=request.samples_per_item,
        **_reuse(result),
        **state_fields(job),
    )


def _reuse(result: Mapping[str, Any]) -> dict[str, str | None]:
    reuse = result.get("reuse") or {}
    return {name: reuse.get(name) for name in ("cached_from", "not_cached")}


def _outcome(name: str | None, request: CreateEvaluation, metrics: Any) -> BenchmarkOutcome:
    found = EvaluationMetrics.model_validate(metrics) if metrics else None
    keeps_none = found is not None and found.grader_metric is None
    if found is not None and keeps_none and not isinstance(request.grader, ExtensionReward):
        # What ended under an earlier version did not keep it.
        found.grader_metric = grader_metric(request.grader, "grader", found)
    outcome = BenchmarkOutcome(
        name=name,
        file=request.only_file,
        grader=request.grader,
        benchmark=request.benchmark,
        split=request.split,
        pass_threshold=request.pass_threshold,
        prediction=request.prediction,
        keep_reasoning=request.keep_reasoning,
        sampling=request.sampling,
        samples_per_item=request.samples_per_item,
        metrics=found,
    )
    return outcome.model_copy(update={"main_metric": main_metric(outcome)})
