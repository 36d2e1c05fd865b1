"""What is behind the reply of a tool: the run of a program, or a search."""

from typing import Annotated, Literal

from pydantic import Field

from services.contracts.base import Resource
from services.contracts.sandbox import CommandResult, RunStatus

KEPT_OUTPUT_CHARACTERS = 8192
KEPT_CODE_CHARACTERS = 16_384
KEPT_QUERIES = 8
KEPT_PASSAGES = 10
KEPT_PASSAGE_CHARACTERS = 500
KEPT_NAME_CHARACTERS = 300


class ProgramRun(Resource):
    """A run of the sandbox; of stdout and stderr the heads are kept."""

    type: Literal["program"] = "program"
    language: str
    code: str | None = Field(
        default=None, description="The head of what ran, where it is not the argument as it was."
    )
    status: RunStatus
    compile_result: CommandResult | None = None
    run_result: CommandResult | None = None


class Passage(Resource):
    """A passage that a search found; its title and text are the heads."""

    id: str | None = None
    score: float | None = None
    title: str = ""
    text: str = ""


class QueryHits(Resource):
    """A query and the first of the passages that were found, best first."""

    query: str
    found: int = Field(description="How many passages were found.")
    passages: list[Passage]


class SearchRun(Resource):
    """A search: the first of its queries."""

    type: Literal["search"] = "search"
    index: str | None = Field(default=None, description="Null: the default index.")
    topk: int
    queries: list[QueryHits]


ToolRun = Annotated[ProgramRun | SearchRun, Field(discriminator="type")]


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
