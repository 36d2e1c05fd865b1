"""Checks that an evaluation may use its tools, and that the model can call them."""

from collections.abc import Iterator

from sqlalchemy.orm import Session

from services.api.models.service import resolve_for_load
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.rewards.rewards import EnvironmentReward
from services.contracts.rollouts.multi_turn import ENVIRONMENT, MultiTurn
from services.contracts.sampling import Sampling
from services.rollouts.chat.call_format import check_parser_fits
from services.rollouts.settings import validate_multi_turn
from services.rollouts.tools import check_tools

_PENALTIES = ("presence_penalty", "frequency_penalty", "repetition_penalty")


def check_tool_use(session: Session, body: CreateEvaluation, settings: ApiSettings) -> None:
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
    if not given.multi_turn_enable and "multi_turn_enable" in given.model_fields_set:
        raise InvalidRequest("tools need several turns", param="multi_turn.multi_turn_enable")
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
    elif "tool_parser_format" in given.model_fields_set:
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
            if getattr(sampling, penalty) is not None:
                raise InvalidRequest(
                    "a registered model is sampled without penalties in conversations with tools",
                    param=f"{field}.{penalty}",
                )
    try:
        model = resolve_for_load(session, name, settings)
    except (InvalidRequest, NotFound):
        return  # the job reports what is missing: it may exist by then
    folder = model.tokenizer_folder
    if folder is not None and folder.is_dir():
        check_parser_fits(folder, conversation)
