"""The kinds of tools and their ``config``, under the names used by published tool files."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AnyHttpUrl, Field, StrictBool, StrictInt, model_validator

from services.contracts.base import JsonObject, Number, Request
from services.contracts.retrieval.indexes import IndexName
from services.contracts.retrieval.search import MAX_TOPK
from services.contracts.sandbox.programs import Language
from services.contracts.validation import AtField


class ToolKind(StrEnum):
    """How a tool processes its arguments; the values are our class names."""

    SANDBOX = "sandbox"  # runs its code
    RETOOL = "retool"  # the same, with the value of the last expression shown
    SEARCH = "search"  # searches passages
    HTTP = "http"  # posts them to a URL
    CALLABLE = "callable"  # passes them to a Python function
    MCP = "mcp"  # calls tools of an MCP server
    OPENENV = "openenv"  # acts in an OpenEnv environment


PUBLISHED = {
    "sandbox_fusion_tool.SandboxFusionTool": ToolKind.SANDBOX,
    "sandbox_fusion_tools.SandboxFusionTool": ToolKind.SANDBOX,
    "retool.ReTool": ToolKind.RETOOL,
    "retool.CustomSandboxFusionTool": ToolKind.RETOOL,  # verl's recipe
    "search_tool.SearchTool": ToolKind.SEARCH,
}
"""By the last module and the class of a dotted name, in any package."""


def kind_of(class_name: str) -> ToolKind | None:
    """The kind of a class name; None for one that is none of ours."""
    try:
        return ToolKind(class_name)
    except ValueError:
        return PUBLISHED.get(".".join(class_name.split(".")[-2:]))


Slots = Annotated[StrictInt, Field(ge=1, le=4096)]
Seconds = Annotated[Number, Field(gt=0.0, le=3600.0)]


class ToolConfig(Request):
    """Common to all kinds: the limit of calls in flight.

    One process makes all calls of a job, so the smaller of the two limits applies, per tool.
    """

    type: Literal["native"] = "native"
    num_workers: Slots = 10
    enable_global_rate_limit: StrictBool = True
    rate_limit: Slots = 10

    @property
    def max_in_flight(self) -> int:
        """Maximum number of concurrent calls."""
        if not self.enable_global_rate_limit:
            return self.num_workers
        return min(self.num_workers, self.rate_limit)


class SandboxConfig(ToolConfig):
    """A tool that runs code."""

    sandbox_fusion_url: AnyHttpUrl | None = Field(
        default=None, description="URL including /run_code; null: the operator's sandbox."
    )
    default_timeout: Seconds = Field(
        default=30, description="Seconds for compiling, and for running."
    )
    default_language: Language = Language.PYTHON
    memory_limit_mb: Annotated[StrictInt, Field(ge=1, le=1 << 20)] = 1024
    upstream_replies: StrictBool = Field(
        default=False,
        description="Reply 'no stdout here' for a program that did not finish, not the reason.",
    )


class SearchConfig(ToolConfig):
    """A tool that retrieves passages."""

    retrieval_service_url: AnyHttpUrl | None = Field(
        default=None, description="URL including /retrieve; null: the operator's service."
    )
    index: IndexName | None = Field(
        default=None, description="An index of our retrieval service; null: its default."
    )
    num_workers: Slots = 120
    rate_limit: Slots = 120
    timeout: Seconds = 30
    topk: Annotated[StrictInt, Field(ge=1, le=MAX_TOPK)] = 3


class HttpConfig(ToolConfig):
    """A tool that receives its arguments as a POSTed JSON body and replies with the answer."""

    url: AnyHttpUrl
    num_workers: Slots = 32
    rate_limit: Slots = 32
    timeout: Seconds = 30
    idempotent: StrictBool = Field(
        default=False, description="A call may be retried when its outcome is unknown."
    )


class CallableConfig(ToolConfig):
    """A Python function called with the arguments by name; its return value is the reply."""

    callable: Annotated[str, Field(min_length=3, max_length=300)]
    num_workers: Annotated[StrictInt, Field(ge=1, le=64)] = Field(
        default=4, description="Processes that run it."
    )
    rate_limit: Slots = 64
    timeout: Seconds = 30


class McpConfig(ToolConfig):
    """Tools of an MCP server: over streamable HTTP, where all calls of a job share one session, or
    of a program that the operator allows, which each rollout starts for itself."""

    url: AnyHttpUrl | None = Field(
        default=None, description="Address of the server's MCP endpoint."
    )
    command: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="Name of a program in the operator's TEMPER_MCP_COMMANDS, in place of a URL.",
    )
    tool: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="Name of the tool at the server; null: the schema's name, or without a schema "
        "every tool that the server has.",
    )
    num_workers: Slots = 32
    rate_limit: Slots = 32
    timeout: Seconds = 30
    idempotent: StrictBool = Field(
        default=False, description="A call may be retried when its outcome is unknown."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise AtField("url", "exactly one of url and command must be given")
        return self


FieldName = Annotated[str, Field(min_length=1, max_length=200)]


class OpenEnvConfig(ToolConfig):
    """An OpenEnv environment, of which each rollout has a session of its own.

    The tools of an environment of MCP's kind are listed by itself. Another one takes the arguments
    of the one tool that ``tool_schema`` declares as its action.
    """

    url: AnyHttpUrl = Field(description="Address of the environment's server, without /ws.")
    num_workers: Slots = Field(default=256, description="Sessions that are open at once.")
    rate_limit: Slots = 4096
    timeout: Seconds = Field(default=60, description="Seconds for the answer to one message.")
    session_timeout: Seconds = Field(
        default=3600, description="Seconds that a session may be open; then the rollout ends."
    )
    capacity_timeout: Seconds = Field(
        default=600, description="Seconds that a rollout waits for room at the server."
    )
    reset: JsonObject = Field(
        default_factory=dict, description="Data of every reset, such as a difficulty."
    )
    reset_fields: list[FieldName] = Field(
        default_factory=list,
        max_length=64,
        description="Fields of a row that are sent with its reset, such as a task's number.",
    )
    show_reset: StrictBool = Field(
        default=False,
        description="Whether what the environment shows at the reset is appended to the last "
        "message.",
    )
