"""/v1/scripts, for clients with the operator's key for scripts. The gateway does not forward it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Request, Response

from services.contracts.base import Deleted
from services.contracts.errors import (
    AuthenticationFailed,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    Unavailable,
    Unprocessable,
)
from services.contracts.sandbox.scripts import SCRIPT_KEY_HEADER, Script, ScriptHost, StartScript
from services.core.web.auth import ToolPrincipal, known_hash
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body, read_body
from services.sandbox.context import Sandbox
from services.sandbox.examples import SCRIPT
from services.sandbox.scripts.manager import Scripts
from services.sandbox.wire import DOWNLOAD, file_response


async def _scripts(
    sandbox: Sandbox,
    _principal: ToolPrincipal,
    key: Annotated[str, Header(alias=SCRIPT_KEY_HEADER, description="The key for scripts.")] = "",
) -> Scripts:
    """The scripts, for clients with a valid key; raises `PermissionDenied`."""
    if known_hash(key, sandbox.settings.sandbox_script_key_hashes) is None:
        raise PermissionDenied(
            f"scripts need a key in {SCRIPT_KEY_HEADER} whose hash is in "
            "TEMPER_SANDBOX_SCRIPT_KEY_HASHES"
        )
    return sandbox.scripts


AllowedScripts = Annotated[Scripts, Depends(_scripts)]
ScriptId = Annotated[str, Path(pattern=r"^[0-9a-f]{32,64}$", description="Chosen by the client.")]

router = APIRouter(
    prefix="/v1/scripts",
    tags=["scripts"],
    responses=documented_errors(AuthenticationFailed, PermissionDenied),
)


@router.get("", summary="Show what scripts can use")
async def host(scripts: AllowedScripts) -> ScriptHost:
    """Show the folders, the destination and the limits of scripts."""
    return scripts.host()


@router.put(
    "/{script_id}",
    summary="Start a script",
    openapi_extra=documented_body(StartScript, SCRIPT),
    responses=documented_errors(PayloadTooLarge, Unprocessable, Unavailable),
)
async def start(request: Request, scripts: AllowedScripts, script_id: ScriptId) -> Script:
    """Start a script without waiting for it; a repeated request returns its current state."""
    return await scripts.start(script_id, await read_body(request, StartScript))


@router.get("/{script_id}", summary="Show a script", responses=documented_errors(NotFound))
async def get(scripts: AllowedScripts, script_id: ScriptId) -> Script:
    """Show a script's state and the tail of its output."""
    return scripts.get(script_id).view()


@router.delete("/{script_id}", summary="End a script", responses=documented_errors(NotFound))
async def delete(scripts: AllowedScripts, script_id: ScriptId) -> Deleted:
    """Kill a script and its children, and delete its files."""
    await scripts.delete(script_id)
    return Deleted(id=script_id, object="script")


@router.get(
    "/{script_id}/files/{path:path}",
    summary="Download a file of a script",
    response_class=Response,
    responses=documented_errors(NotFound) | DOWNLOAD,
)
async def download(
    scripts: AllowedScripts,
    script_id: ScriptId,
    path: Annotated[str, Path(description="Below the work directory.")],
) -> Response:
    """Download a fetched file of a script that has ended."""
    content = scripts.get(script_id).files.get(path)
    if content is None:
        raise NotFound(f"the script has no fetched file {path[:200]!r}", param="path")
    return file_response(content)
