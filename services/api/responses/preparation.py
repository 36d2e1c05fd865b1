"""From a stored response to the run that answers it."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.api.responses import store
from services.api.responses.items import messages_for
from services.api.responses.request import CreateResponse, options_of
from services.api.responses.run import Asked, Keep, Limits, Run
from services.api.responses.tools.declared import ServerTools, split_tools
from services.api.serving.forward import Inference
from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import NotFound
from services.core.db.tables import ResponseRow
from services.dialects.deltas import TurnUsage
from services.dialects.responses_writer import ResponseWriter


@dataclass(frozen=True)
class Prepared:
    """A response that is ready to run; ``done`` is what an earlier run finished of it."""

    head: JsonObject
    asked: Asked
    tools: ServerTools
    limits: Limits
    streamed: bool
    done: store.Progress
    next_event: int

    def run(self, inference: Inference, keep: Keep, *, patient: bool) -> Run:
        """A run that continues after what is done."""
        writer = ResponseWriter(
            self.head,
            output=self.done.output,
            usage=self.done.usage,
            next_number=self.next_event,
            is_server_tool=self.tools.has,
        )
        return Run(inference, self.asked, self.tools, writer, self.limits, keep, patient=patient)


def prepare(session: Session, identity: str, settings: ApiSettings) -> Prepared:
    """A stored response; raises `TemperError` if it cannot be answered any more."""
    row = session.scalar(select(ResponseRow).where(ResponseRow.id == identity))
    if row is None:
        raise NotFound(f"no response {identity!r}")
    before = []
    if row.previous_id is not None:
        before = store.conversation(session, row.principal, row.previous_id)
    return prepared(row, before, settings, store.next_event(session, identity))


def prepared(
    row: ResponseRow, before: list[JsonObject], settings: ApiSettings, next_event: int = 0
) -> Prepared:
    """A response that continues the items ``before``; raises `InvalidRequest` naming the field."""
    request = CreateResponse.model_validate(row.request)
    functions, tools = split_tools(request.tools or (), settings)
    usage = row.usage or {}
    asked = Asked(
        principal=row.principal,
        options=options_of(request),
        messages=messages_for(request.instructions, [*before, *row.input, *row.output]),
        functions=functions,
        streamed=row.streamed,
        max_output_tokens=request.max_output_tokens,
    )
    limits = Limits(
        seconds=settings.response_seconds,
        turns=settings.response_turns,
        tokens=settings.response_tokens,
        tool_calls=request.max_tool_calls,
    )
    used = TurnUsage(usage.get("input_tokens", 0), usage.get("output_tokens", 0))
    done = store.Progress(list(row.output), used)
    return Prepared(store.head_of(row), asked, tools, limits, row.streamed, done, next_event)
