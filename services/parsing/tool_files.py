"""Tool files: the YAML in which MindSpeed-RL and verl declare tools."""

from typing import Any

import yaml
from pydantic import ValidationError

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.validation import first_fault
from services.parsing.yaml_text import parse_yaml

LARGEST_FILE = 1 << 20
"""Characters."""


def parse_tool_file(text: str, name: str) -> list[Tool]:
    """The tools that a file's text declares; raises an `InvalidRequest` that names the file, as
    ``name``, and the field. Does not check whether the tools are usable."""
    tools = []
    for index, entry in enumerate(_entries(text, name)):
        try:
            tools.append(Tool.model_validate(entry))
        except ValidationError as error:
            fault = first_fault(error)
            where = ".".join([f"tools[{index}]", *map(str, fault.location)])
            raise InvalidRequest(f"{name}: {where}: {fault.message}", param=where) from None
    return tools


def _entries(text: str, name: str) -> list[Any]:
    if len(text) > LARGEST_FILE:
        raise InvalidRequest(f"{name} is longer than {LARGEST_FILE} characters", param="tools")
    try:
        content = parse_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InvalidRequest(f"{name} is not YAML: {reason}", param="tools") from error
    entries = content.get("tools") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise InvalidRequest(f"{name} has no list of tools", param="tools")
    return entries
