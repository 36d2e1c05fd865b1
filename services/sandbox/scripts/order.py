"""A checked order for a script: from the request to what is run, and where."""

from dataclasses import dataclass
from pathlib import Path

from services.contracts.errors import Unprocessable
from services.contracts.sandbox_scripts import StartScript
from services.sandbox.execution import Execution, Limits, PythonFile
from services.sandbox.isolation.tier import Tier
from services.sandbox.scripts.folders import ReadOnlyFolders
from services.sandbox.scripts.rooms import NETWORK_SETTING, Room
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import clean_path, clean_paths, decode_files, memory_bytes

_DIRECTLY = {"NO_PROXY": "", "no_proxy": ""}
"""The destination may have an address of loopback, to which nothing leads but the proxy."""


@dataclass(frozen=True)
class ScriptOrder:
    """What is run, and in which room."""

    execution: Execution
    room: Room


def most_seconds(settings: SandboxSettings) -> float:
    """The highest time limit of a script."""
    return settings.sandbox_script_hours * 3600.0


def destination(settings: SandboxSettings, tier: Tier) -> str | None:
    """The one destination of scripts; only the full tier can restrict them to it."""
    return settings.sandbox_script_network if tier is Tier.FULL else None


def check_order(
    request: StartScript, settings: SandboxSettings, folders: ReadOnlyFolders, tier: Tier
) -> ScriptOrder:
    """Validate a request; raises `Unprocessable`. Looks at the named folders."""
    _check_limits(request, settings)
    shown = {
        name: folders.find(named, f"folders.{name}") for name, named in request.folders.items()
    }
    execution = Execution(
        command=PythonFile(clean_path(request.file, "file"), tuple(request.arguments)),
        limits=Limits(request.seconds, _memory(request, settings), settings.sandbox_output_bytes),
        files=_files(request, shown),
        links={name: str(folder) for name, folder in shown.items()},
        environment={**(_DIRECTLY if request.network else {}), **request.environment},
        fetch=tuple(clean_paths(request.fetch_files, "fetch_files")),
    )
    output_mb = request.output_mb or settings.sandbox_script_output_mb
    destinations = _destinations(request, settings, tier)
    return ScriptOrder(execution, Room(output_mb << 20, [*shown.values()], destinations))


def _check_limits(request: StartScript, settings: SandboxSettings) -> None:
    if request.seconds > most_seconds(settings):
        raise Unprocessable(
            f"seconds: is above {most_seconds(settings):g}, the maximum of this service "
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
    asked = request.memory_limit_mb or settings.sandbox_max_memory_mb
    return memory_bytes(asked, "memory_limit_mb", settings)


def _files(request: StartScript, shown: dict[str, Path]) -> dict[str, bytes]:
    files = decode_files(request.files, "files")
    script = clean_path(request.file, "file")
    taken = {path.partition("/")[0] for path in (*files, script)} & shown.keys()
    if taken:
        name = min(taken)
        raise Unprocessable(
            f"folders: {name!r} is also the name of a file or folder of its own", param="folders"
        )
    if script in files:
        raise Unprocessable(f"files: {script!r} is where the code is written", param="files")
    return {**files, script: request.code.encode()}


def _destinations(request: StartScript, settings: SandboxSettings, tier: Tier) -> list[str]:
    if not request.network:
        return []
    there = destination(settings, tier)
    if there is None:
        raise Unprocessable(
            f"network: this sandbox leads nowhere: it needs {NETWORK_SETTING} and the full tier",
            param="network",
        )
    return [there]
