"""Parsers of tool calls, one per model family's format."""

from collections.abc import Mapping
from types import MappingProxyType

from services.contracts.errors import InvalidRequest
from services.rollouts.parsers.base import ParsedCall, ParsedTurn, ToolParser
from services.rollouts.parsers.json_calls import HermesParser, Llama3JsonParser, MistralParser
from services.rollouts.parsers.pythonic import PythonicParser
from services.rollouts.parsers.qwen3_coder import Qwen3CoderParser

__all__ = ["PARSERS", "ParsedCall", "ParsedTurn", "ToolParser", "parser_of"]

PARSERS: Mapping[str, ToolParser] = MappingProxyType(
    {
        "hermes": HermesParser(),
        "qwen3-coder": Qwen3CoderParser(),
        "llama3-json": Llama3JsonParser(),
        "mistral": MistralParser(),
        "pythonic": PythonicParser(),
    }
)


def parser_of(name: str) -> ToolParser:
    """The parser of a format; accepts underscores for hyphens. Raises InvalidRequest."""
    parser = PARSERS.get(name.lower().replace("_", "-"))
    if parser is None:
        raise InvalidRequest(
            f"tool_parser_format {name[:80]!r} is unknown; known are {', '.join(PARSERS)}",
            param="multi_turn.tool_parser_format",
        )
    return parser
