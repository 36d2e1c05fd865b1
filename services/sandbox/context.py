"""The objects shared by all routes, as a typed dependency."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from services.core.web.auth import Authenticator
from services.sandbox.isolation.tiers import Isolation
from services.sandbox.runs.service import Runs
from services.sandbox.scripts.manager import Scripts
from services.sandbox.sessions.manager import Sessions
from services.sandbox.sessions.notebooks import Notebooks
from services.sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class SandboxContext:
    """The components of one sandbox process."""

    settings: SandboxSettings
    tool_authenticator: Authenticator
    isolation: Isolation
    runs: Runs
    notebooks: Notebooks
    sessions: Sessions
    scripts: Scripts


async def _context(request: Request) -> SandboxContext:
    context: SandboxContext = request.app.state.context
    return context


Sandbox = Annotated[SandboxContext, Depends(_context)]
