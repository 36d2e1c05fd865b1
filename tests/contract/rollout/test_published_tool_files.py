"""Tool files in the formats of MindSpeed-RL and verl."""

from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import Tool
from services.rollouts.tools import check_tools, read_tool_file
from services.rollouts.tools.configuration import ToolKind
from services.rollouts.tools.declaration import Declaration, declarations

CODE_SCHEMA = """
    tool_schema:
      type: "function"
      function:
        name: "code_interpreter"
        description: "A tool for executing code."
        parameters:
          type: "object"
          properties:
            code:
              type: "string"
              description: "The code to execute."
          required: ["code"]
"""
SEARCH_SCHEMA = """
    tool_schema:
      type: "function"
      function:
        name: "search"
        description: "Searches the web for relevant information based on the given query."
        parameters:
          type: "object"
          properties:
            query_list:
              type: "array"
              item:
                type: "string"
              description: "A list of fully-formed semantic queries."
          required: ["query_list"]
"""
CODE_CONFIG = """
    config:
      sandbox_fusion_url: "http://localhost:8080/run_code"
      num_workers: 128
      enable_global_rate_limit: true
      rate_limit: 128
      default_timeout: 30
      default_language: "python"
      memory_limit_mb: 1024
      type: native
"""
SEARCH_CONFIG = """
    config:
      retrieval_service_url: "http://localhost:8080/retrieve"
      num_workers: 120
      enable_global_rate_limit: true
      rate_limit: 120
      timeout: 30
      topk: 3
      type: native
"""
MINDSPEED_RETOOL = (
    f'tools:\n  - class_name: "mindspeed_rl.tools.retool.ReTool"{CODE_CONFIG}{CODE_SCHEMA}'
)
MINDSPEED_SEARCH = (
    f'tools:\n  - class_name: "mindspeed_rl.tools.search_tool.SearchTool"{SEARCH_CONFIG}'
    f"{SEARCH_SCHEMA}"
)
VERL_SANDBOX = f"""tools:
  - class_name: "verl.tools.sandbox_fusion_tools.SandboxFusionTool"
    config: {{
      "sandbox_fusion_url": "https://sandbox.example/run_code"
    }}{CODE_SCHEMA}"""
VERL_SEARCH = f"""tools:
  - class_name: verl.tools.search_tool.SearchTool
    config:
      retrieval_service_url: http://127.0.0.1:8000/retrieve
      num_workers: 120
      rate_limit: 120
      timeout: 30
      type: native
{SEARCH_SCHEMA}"""
VERL_RETOOL = MINDSPEED_RETOOL.replace(
    "mindspeed_rl.tools.retool.ReTool", "recipe.retool.retool.CustomSandboxFusionTool"
)
ELSEWHERE = ["https://sandbox.example:443", "http://127.0.0.1:8000"]


def read(folder: Path, text: str) -> list[Tool]:
    path = folder / "tools.yaml"
    path.write_text(text)
    return read_tool_file(path)


def only(folder: Path, text: str) -> Declaration:
    tools = read(folder, text)
    check_tools(tools, ELSEWHERE, [])
    (declaration,) = declarations(tools, "tools")
    return declaration


@pytest.mark.parametrize(
    ("text", "kind", "name", "places"),
    [
        (MINDSPEED_RETOOL, ToolKind.RETOOL, "code_interpreter", 128),
        (MINDSPEED_SEARCH, ToolKind.SEARCH, "search", 120),
        (VERL_SANDBOX, ToolKind.SANDBOX, "code_interpreter", 10),
        (VERL_SEARCH, ToolKind.SEARCH, "search", 120),
        (VERL_RETOOL, ToolKind.RETOOL, "code_interpreter", 128),
    ],
)
def test_a_published_file_loads_unmodified(
    tmp_path: Path, text: str, kind: ToolKind, name: str, places: int
) -> None:
    declaration = only(tmp_path, text)

    assert declaration.kind is kind
    assert declaration.name == name
    assert declaration.config.max_in_flight == places


@pytest.mark.parametrize("text", [MINDSPEED_RETOOL, MINDSPEED_SEARCH])
def test_a_file_for_the_local_stack_needs_no_permission(tmp_path: Path, text: str) -> None:
    check_tools(read(tmp_path, text), [], [])


def test_item_in_a_published_schema_becomes_items(tmp_path: Path) -> None:
    schema = only(tmp_path, MINDSPEED_SEARCH).schema

    assert schema is not None
    assert schema["function"]["parameters"]["properties"]["query_list"] == {
        "type": "array",
        "items": {"type": "string"},
        "description": "A list of fully-formed semantic queries.",
    }


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("tools: 5", "tools"),
        ("- class_name: sandbox", "tools"),
        ("tools: [{class_name: sandbox}, {config: {}}]", "tools[1].class_name"),
        ("tools: [{class_name: sandbox, confg: {}}]", "tools[0].confg"),
        ("tools: [{class_name: sandbox, config: 5}]", "tools[0].config"),
        ("tools: [", "tools"),
        ("tools: !!python/object/apply:os.system ['true']", "tools"),
        ("", "tools"),
    ],
)
def test_an_invalid_file_is_rejected_by_name_and_field(
    tmp_path: Path, text: str, param: str
) -> None:
    with pytest.raises(InvalidRequest, match=r"tools\.yaml") as caught:
        read(tmp_path, text)

    assert caught.value.param == param


def test_an_unreadable_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("nowhere", "binary", "."):
        with pytest.raises(InvalidRequest):
            read_tool_file(tmp_path / name)
