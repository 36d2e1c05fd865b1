"""Validates a request for a script and plans its execution."""

from dataclasses import dataclass
from pathlib import Path

from services.contracts.errors import Unprocessable
from services.contracts.sandbox.scripts import StartScript
from services.sandbox.execution import Execution, Limits, PythonFile
from services.sandbox.isolation.tier import Tier
from services.sandbox.scripts.folders import ReadOnlyFolders
from services.sandbox.scripts.rooms import NETWORK_SETTING, Room
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import clean_path, clean_paths, decode_files, memory_bytes

_PROXY_EVERYTHING = {"NO_PROXY": "", "no_proxy": ""}
"""Even a loopback destination is reachable through the proxy only."""


@dataclass(frozen=True)
class ScriptPlan:
    """An execution and its room."""

    execution: Execution
    room: Room


def max_seconds(settings: SandboxSettings) -> float:
    """The highest time limit of a script."""
    return settings.sandbox_script_hours * 3600.0


def destination(settings: SandboxSettings, tier: Tier) -> str | None:
    """The only destination of scripts; None without the full tier, which enforces it."""
    return settings.sandbox_script_network if tier is Tier.FULL else None


def plan_script(
    request: StartScript, settings: SandboxSettings, folders: ReadOnlyFolders, tier: Tier
) -> ScriptPlan:
    """Validate a request; raises `Unprocessable`. Looks at the named folders."""
    _check_limits(request, settings)
    mounted = {
        name: folders.find(path, f"folders.{name}") for name, path in request.folders.items()
    }
    execution = Execution(
        command=PythonFile(clean_path(request.file, "file"), tuple(request.arguments)),
        limits=Limits(request.seconds, _memory(request, settings), settings.sandbox_output_bytes),
        files=_files(request, mounted),
        links={name: str(folder) for name, folder in mounted.items()},
        environment={**(_PROXY_EVERYTHING if request.network else {}), **request.environment},
        fetch=tuple(clean_paths(request.fetch_files, "fetch_files")),
    )
    output_mb = request.output_mb or settings.sandbox_script_output_mb
    destinations = _destinations(request, settings, tier)
    return ScriptPlan(execution, Room(output_mb << 20, [*mounted.values()], destinations))


def _check_limits(request: StartScript, settings: SandboxSettings) -> None:
    if request.seconds > max_seconds(settings):
        raise Unprocessable(
            f"seconds: is above {max_seconds(settings):g}, the maximum of this service "
            "(TEMPER_SANDBOX_SCRIPT_HOURS)",
            param="seconds",
        )
    if (request.output_mb or 0) > settings.sandbox_script_output_mb:
        raise Unprocessable(
            f"output_mb: is above {settings.sandbox_script_output_mb}, the maximum of this "
            "service (TEMPER_SANDBOX_SCRIPT_OUTPUT_MB)",
            param="output_mb",
        )


def _memory(request: StartScript, settings: SandboxSettings) -> int:
    limit_mb = request.memory_limit_mb or settings.sandbox_max_memory_mb
    return memory_bytes(limit_mb, "memory_limit_mb", settings)


def _files(request: StartScript, mounted: dict[str, Path]) -> dict[str, bytes]:
    files = decode_files(request.files, "files")
    script = clean_path(request.file, "file")
    taken = {path.partition("/")[0] for path in (*files, script)} & mounted.keys()
    if taken:
        name = min(taken)
        raise Unprocessable(
            f"folders: {name!r} collides with one of the script's own files", param="folders"
        )
    if script in files:
        raise Unprocessable(f"files: {script!r} is reserved for the code", param="files")
    return {**files, script: request.code.encode()}


def _destinations(request: StartScript, settings: SandboxSettings, tier: Tier) -> list[str]:
    if not request.network:
        return []
    allowed = destination(settings, tier)
    if allowed is None:
        raise Unprocessable(
            f"network: this sandbox has no network: it needs {NETWORK_SETTING} and the full tier",
            param="network",
        )
    return [allowed]
