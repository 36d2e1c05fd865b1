"""Typed dependencies of the routes."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from services.core.web.auth import Authenticator
from services.retrieval.engine.engine import SearchEngine
from services.retrieval.settings import RetrievalSettings


@dataclass(frozen=True)
class RetrievalContext:
    """Everything a request handler needs."""

    settings: RetrievalSettings
    tool_authenticator: Authenticator
    engine: SearchEngine


async def _context(request: Request) -> RetrievalContext:
    context: RetrievalContext = request.app.state.context
    return context


Retrieval = Annotated[RetrievalContext, Depends(_context)]
