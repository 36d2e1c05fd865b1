"""Health checks of tools before the first prompt."""

from collections.abc import Sequence

from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.rollouts.multi_turn import Tool
from services.core.process.reporter import Reporter
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.tools.base import Toolbox
from services.rollouts.tools.declaration import declarations, name_of


async def check_tools_respond(tools: Sequence[Tool], toolbox: Toolbox) -> None:
    """Probe each tool, and ask servers for the tools that only they know.

    Raises `JobFailed` with the error of the first that cannot be called: a missing index, an
    address where nothing listens, a function that cannot be imported."""
    for position, declaration in enumerate(declarations(tools, "tools")):
        if declaration.schema is None:
            problem = await toolbox.discover(position)
        else:
            problem = await toolbox.probe(declaration.name)
        if problem is not None:
            message = f"tool {declaration.name!r} does not respond: {problem}"
            raise JobFailed(message, code="tool_unavailable", param=declaration.param)


def check_tools_shown(toolbox: Toolbox, chat: ChatTokens, reporter: Reporter) -> None:
    """Warn of tools that the chat template leaves out of a prompt: those that only a server tells
    are not known when the prompts of a file are checked."""
    schemas = toolbox.schemas
    if not schemas:
        return
    try:
        asked = chat.text(chat.prompt([{"role": "user", "content": "?"}], schemas))
    except InvalidRequest as error:
        reporter.message(f"the chat template refuses the tools: {error.message}", "warn")
        return
    lost = [name for name in map(name_of, schemas) if name not in asked]
    if lost:
        reporter.message(f"the chat template leaves out tools: {', '.join(lost)}", "warn")
