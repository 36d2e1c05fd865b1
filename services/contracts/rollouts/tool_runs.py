"""The run behind a tool result: a program, a search, or a failed request."""

from typing import Annotated, Literal

from pydantic import Field

from services.contracts.base import Resource
from services.contracts.sandbox.programs import CommandResult, RunStatus

KEPT_OUTPUT_CHARACTERS = 8192
KEPT_CODE_CHARACTERS = 16_384
KEPT_QUERIES = 8
KEPT_PASSAGES = 10
KEPT_PASSAGE_CHARACTERS = 500
KEPT_NAME_CHARACTERS = 300
KEPT_ANSWER_CHARACTERS = 2000


class RequestFailure(Resource):
    """Why a tool's service gave no usable answer; the call has the error and its attempts."""

    status: int | None = Field(
        default=None, description="HTTP status of the last answer; null without one."
    )
    answer: str = Field(default="", description="Beginning of the last answer.")
    seconds: float = Field(description="Duration of the last attempt, in seconds.")


class ProgramRun(Resource):
    """A run of the sandbox, or an attempt at one; stdout and stderr are cut to their heads."""

    type: Literal["program"] = "program"
    language: str = Field(description="Programming language of the program.")
    code: str | None = Field(
        default=None,
        description="Beginning of the code that ran, where it is not the argument as it was.",
    )
    status: RunStatus | None = Field(
        default=None, description="Status of the run; null where the sandbox gave no answer."
    )
    compile_result: CommandResult | None = Field(
        default=None, description="Result of the compiler; null without one."
    )
    run_result: CommandResult | None = Field(
        default=None, description="Result of the run; null without one."
    )
    failure: RequestFailure | None = Field(
        default=None, description="Failure of the request to the sandbox; null: none."
    )


class Passage(Resource):
    """A passage that a search found; its title and text are the heads."""

    id: str | None = Field(default=None, description="Id of the passage; null: unknown.")
    score: float | None = Field(default=None, description="Score of the passage; null: unknown.")
    title: str = Field(default="", description="Beginning of the passage's title.")
    text: str = Field(default="", description="Beginning of the passage's text.")


class QueryHits(Resource):
    """A query and the first passages found, best first."""

    query: str = Field(description="Text of the query.")
    found: int = Field(description="Number of passages found; 0 where the search failed.")
    passages: list[Passage] = Field(description="First passages that were found, best first.")


class SearchRun(Resource):
    """A search: its first queries."""

    type: Literal["search"] = "search"
    index: str | None = Field(
        default=None, description="Index that was searched; null: the default one."
    )
    own: bool | None = Field(
        default=None,
        description="Whether the gateway's own retrieval service was asked; null if not recorded.",
    )
    topk: int = Field(description="Number of passages that were asked for.")
    queries: list[QueryHits] = Field(
        description="First queries of the search, with their passages."
    )
    failure: RequestFailure | None = Field(
        default=None, description="Failure of the request; null: none."
    )


class HttpRun(Resource):
    """A failed request to an HTTP tool; its body was the call's arguments."""

    type: Literal["http"] = "http"
    failure: RequestFailure = Field(description="Failure of the request.")


ToolRun = Annotated[ProgramRun | SearchRun | HttpRun, Field(discriminator="type")]


def kept_command(result: CommandResult | None) -> CommandResult | None:
    """The result of a command with the heads of its outputs."""
    if result is None:
        return None
    cut: dict[str, str | bool] = {}
    for name in ("stdout", "stderr"):
        text = getattr(result, name) or ""
        if len(text) > KEPT_OUTPUT_CHARACTERS:
            cut |= {name: text[:KEPT_OUTPUT_CHARACTERS], f"{name}_truncated": True}
    return result.model_copy(update=cut)
