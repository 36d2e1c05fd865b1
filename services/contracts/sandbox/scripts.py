"""/v1/scripts: Python scripts that run for hours, and read folders of the operator."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from services.contracts.base import Number, Request, Resource
from services.contracts.sandbox.programs import CommandResult, EncodedFiles, FetchedPaths, Megabytes

SCRIPT_KEY_HEADER = "Temper-Script-Key"
"""Header with the key for scripts, which differs from the keys for ordinary programs."""

MAX_FOLDERS = 50
MAX_VARIABLES = 50

FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]
ScriptText = Annotated[str, Field(max_length=16_384)]


class StartScript(Request):
    """A script with all its limits."""

    code: str = Field(
        max_length=1 << 20, description="Source code of the script.", examples=["print(1)"]
    )
    file: str = Field(
        default="main.py",
        max_length=200,
        description="Path of the script below the work directory.",
    )
    arguments: list[ScriptText] = Field(default_factory=list, max_length=100)
    seconds: Number = Field(gt=0.0, description="Time limit in seconds.", examples=[3600])
    memory_limit_mb: Megabytes | None = Field(
        default=None,
        ge=16,
        description="Memory limit in MiB; null: the highest that a program may have.",
    )
    output_mb: Megabytes | None = Field(
        default=None,
        ge=1,
        description="Maximum size of all files that the script writes, in MiB; null: as much as "
        "it may have.",
    )
    files: EncodedFiles = Field(default_factory=dict)
    folders: dict[FolderName, ScriptText] = Field(
        default_factory=dict,
        max_length=MAX_FOLDERS,
        description="Folders to read, by their names in the work directory. Each is a name of the "
        "operator's list, or a folder below it: NAME/below.",
    )
    environment: dict[VariableName, ScriptText] = Field(
        default_factory=dict, max_length=MAX_VARIABLES
    )
    network: StrictBool = Field(
        default=False,
        description="Whether the script may reach the one destination that the operator has named.",
    )
    fetch_files: FetchedPaths = Field(default_factory=list)


class ScriptState(StrEnum):
    """Where a script stands."""

    RUNNING = "running"
    ENDED = "ended"  # by itself, or at a limit: `result` says how
    FAILED = "failed"  # the sandbox failed, not the script


class Script(Resource):
    """A started script, until it is deleted or expires because no client polls it."""

    id: str
    object: Literal["script"] = "script"
    state: ScriptState
    seconds: float = Field(description="Seconds since the start of the script, or its duration.")
    stdout: str = Field(default="", description="End of the standard output so far.")
    stderr: str = ""
    result: CommandResult | None = Field(
        default=None, description="Result of a script that has ended."
    )
    files: dict[str, int] = Field(default={}, description="Sizes of the files to fetch, by path.")
    message: str = Field(
        default="", description="Reason for the failure, or the files that are too large."
    )


class ScriptHost(Resource):
    """What this sandbox offers to scripts."""

    object: Literal["script.host"] = "script.host"
    folders: list[str] = Field(description="Names on the operator's list of folders.")
    network: str | None = Field(
        description="Destination, as HOST:PORT, that scripts may reach; null: none."
    )
    max_seconds: float
    max_output_mb: int
    unattended_seconds: float = Field(
        description="Seconds without a poll after which a script is stopped and deleted."
    )
