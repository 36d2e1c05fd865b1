"""The code interpreter: each call is one program in the operator's sandbox."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from services.api.responses.tools.base import (
    LONGEST_OUTPUT,
    Opened,
    Reply,
    Shown,
    arguments_of,
    refuse,
)
from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.core.operator_environment import OperatorEnvironment
from services.dialects.fields import function_tool
from services.dialects.responses_writer import ServerCall, Unnumbered
from services.rollouts.tools.base import ToolError
from services.rollouts.tools.configuration import SandboxConfig
from services.rollouts.tools.endpoints import sandbox_endpoint
from services.rollouts.tools.retool import runnable
from services.rollouts.tools.sandbox import SandboxTool, sandbox_service

NAME = "code_interpreter"
CONTAINER = "sandbox"
"""Stands for the container of OpenAI's items: programs share none here."""
_SCHEMA = function_tool(
    NAME,
    "Run a Python program; reply with its output and the value of its last expression.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program."}},
        "required": ["code"],
    },
)


class CodeInterpreterSource:
    """The sandbox as a tool."""

    names: Sequence[str] = (NAME,)

    def __init__(self, tool: JsonObject, place: str, operator: OperatorEnvironment) -> None:
        container = tool.get("container")
        if not isinstance(container, dict) or container.get("type") != "auto":
            message = "must be of type auto: programs share no container"
            raise InvalidRequest(message, param=f"{place}.container")
        reason = "programs get no files"
        refuse(container, f"{place}.container", {"file_ids": reason})
        self._operator = operator

    async def open(self, stack: AsyncExitStack) -> Opened:
        """See `Source`."""
        config = SandboxConfig()
        service = sandbox_service(sandbox_endpoint(config, self._operator), config)
        opened = await stack.enter_async_context(service)
        return Opened([_CodeInterpreter(SandboxTool(opened, config, ("code",), runnable))])


class _CodeInterpreter:
    schema = _SCHEMA

    def __init__(self, tool: SandboxTool) -> None:
        self._tool = tool

    def begun(self, identity: str, call: ServerCall) -> Shown:
        """See `Tool`."""
        code = _code(call)
        prefix = "response.code_interpreter_call"
        events: tuple[Unnumbered, ...] = (
            (f"{prefix}.in_progress", {}),
            (f"{prefix}_code.delta", {"delta": code}),
            (f"{prefix}_code.done", {"code": code}),
            (f"{prefix}.interpreting", {}),
        )
        return Shown({**_item(identity, code), "status": "in_progress"}, events)

    async def run(self, identity: str, call: ServerCall) -> Reply:
        """See `Tool`."""
        status = "completed"
        try:
            text = (await self._tool.run(arguments_of(call) or {})).text[:LONGEST_OUTPUT]
        except ToolError as error:
            text, status = error.text, "failed"
        outputs = [{"type": "logs", "logs": text}]
        item = {**_item(identity, _code(call)), "outputs": outputs, "status": status}
        done: tuple[Unnumbered, ...] = ()
        if status == "completed":
            done = (("response.code_interpreter_call.completed", {}),)
        return Reply(text, Shown(item, done))


def _code(call: ServerCall) -> str:
    code = (arguments_of(call) or {}).get("code")
    return code if isinstance(code, str) else ""


def _item(identity: str, code: str) -> JsonObject:
    item = {"id": f"ci_{identity}", "type": "code_interpreter_call", "code": code}
    return {**item, "container_id": CONTAINER, "outputs": None}
