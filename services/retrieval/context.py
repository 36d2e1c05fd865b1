"""What every route works with, as typed dependencies."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from services.core.web.auth import Authenticator
from services.retrieval.engine.engine import Engine
from services.retrieval.settings import RetrievalSettings


@dataclass(frozen=True)
class RetrievalContext:
    """The parts of one retrieval process."""

    settings: RetrievalSettings
    tool_authenticator: Authenticator
    engine: Engine


async def _context(request: Request) -> RetrievalContext:
    context: RetrievalContext = request.app.state.context
    return context


Retrieval = Annotated[RetrievalContext, Depends(_context)]
