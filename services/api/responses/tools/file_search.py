"""File search: queries of the retrieval service's indexes, which stand for vector stores."""

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack

from pydantic import ValidationError

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
from services.contracts.rollouts.tool_runs import SearchRun
from services.contracts.validation import first_fault
from services.core.operator_environment import OperatorEnvironment
from services.datasets.record import shown
from services.dialects.fields import function_tool, wrong
from services.dialects.responses_writer import ServerCall, Unnumbered
from services.rollouts.tools.base import ToolError, ToolResult
from services.rollouts.tools.configuration import SearchConfig
from services.rollouts.tools.endpoints import search_endpoint
from services.rollouts.tools.search import SearchTool, search_service

NAME = "file_search"
MAX_INDEXES = 8
_SCHEMA = function_tool(
    NAME,
    "Search the documents; reply with the passages that fit each query best.",
    {
        "type": "object",
        "properties": {
            "queries": {"type": "array", "items": {"type": "string"}, "description": "Queries."}
        },
        "required": ["queries"],
    },
)
_REFUSED = {
    "filters": "passages have no attributes",
    "ranking_options": "an index ranks as it was built",
}


class FileSearchSource:
    """The retrieval service as a tool."""

    names: Sequence[str] = (NAME,)

    def __init__(self, tool: JsonObject, place: str, operator: OperatorEnvironment) -> None:
        refuse(tool, place, _REFUSED)
        indexes = tool.get("vector_store_ids")
        where = f"{place}.vector_store_ids"
        if not isinstance(indexes, list) or not 0 < len(indexes) <= MAX_INDEXES:
            raise wrong(where, indexes, f"a list of 1 to {MAX_INDEXES} names of indexes")
        self._configs = [
            _config(index, tool.get("max_num_results"), f"{where}[{number}]", place)
            for number, index in enumerate(indexes)
        ]
        self._operator = operator

    async def open(self, stack: AsyncExitStack) -> Opened:
        """See `Source`."""
        tools = []
        for config in self._configs:
            target = search_endpoint(config, self._operator)
            service = await stack.enter_async_context(search_service(target, config))
            tools.append(SearchTool(service, config, own=target.own))
        return Opened([_FileSearch(tools)])


class _FileSearch:
    schema = _SCHEMA

    def __init__(self, tools: Sequence[SearchTool]) -> None:
        self._tools = tools

    def begun(self, identity: str, call: ServerCall) -> Shown:
        """See `Tool`."""
        prefix = "response.file_search_call"
        events: tuple[Unnumbered, ...] = (
            (f"{prefix}.in_progress", {}),
            (f"{prefix}.searching", {}),
        )
        item = {**_item(identity, _queries(call)), "status": "searching"}
        return Shown(item, events)

    async def run(self, identity: str, call: ServerCall) -> Reply:
        """See `Tool`."""
        queries = _queries(call)
        item = _item(identity, queries)
        try:
            found = [await tool.run({"query_list": queries}) for tool in self._tools]
        except ToolError as error:
            failed = {**item, "status": "failed", "results": []}
            return Reply(json.loads(error.text)["result"], Shown(failed))
        text = "\n\n".join(json.loads(each.text)["result"] for each in found)[:LONGEST_OUTPUT]
        results = [result for each in found for result in _results(each)]
        done = {**item, "status": "completed", "results": results}
        return Reply(text, Shown(done, (("response.file_search_call.completed", {}),)))


def _config(index: object, results: object, place: str, tool: str) -> SearchConfig:
    try:
        SearchConfig.model_validate({"index": index})
    except ValidationError:
        raise InvalidRequest(f"is {shown(index)}, not the name of an index", param=place) from None
    try:
        return SearchConfig.model_validate({"index": index, "topk": results or 5})
    except ValidationError as error:
        message = first_fault(error).message
        raise InvalidRequest(message, param=f"{tool}.max_num_results") from None


def _queries(call: ServerCall) -> list[str]:
    queries = (arguments_of(call) or {}).get("queries")
    return [str(each) for each in queries] if isinstance(queries, list) else []


def _item(identity: str, queries: list[str]) -> JsonObject:
    return {"id": f"fs_{identity}", "type": "file_search_call", "queries": queries, "results": None}


def _results(found: ToolResult) -> list[JsonObject]:
    """The heads of the passages as OpenAI's results."""
    if not isinstance(found.run, SearchRun):
        return []
    return [
        {
            "file_id": passage.id or "",
            "filename": passage.title,
            "score": passage.score,
            "text": passage.text,
            "attributes": {},
        }
        for query in found.run.queries
        for passage in query.passages
    ]
