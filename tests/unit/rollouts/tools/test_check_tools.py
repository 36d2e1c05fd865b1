"""Tools that are refused before a job is created."""

from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.rollouts.multi_turn import Tool
from services.rollouts.tools import check_tools
from tests.unit.rollouts.tools.toolboxes import function

ALLOWED = ["https://tools.example:443"]


def tool(class_name: str, schema: JsonObject | None = None, **config: Any) -> Tool:
    return Tool(class_name=class_name, config=config, tool_schema=schema)


def check(*tools: Tool) -> None:
    check_tools(tools, ALLOWED, ["mine.double"])


def endpoint(url: str = "https://tools.example/x", **config: Any) -> Tool:
    return tool("http", function("ask"), url=url, **config)


def described(parameters: JsonObject) -> Tool:
    schema = function("ask")
    schema["function"]["parameters"] = parameters
    return tool("http", schema, url="https://tools.example/x")


@pytest.mark.parametrize(
    "good",
    [
        tool("sandbox"),
        tool("retool", sandbox_fusion_url="http://localhost:8080/run_code"),
        tool("search", retrieval_service_url="http://127.0.0.1:8080/retrieve"),
        tool("sandbox", sandbox_fusion_url="https://tools.example/run_code?tenant=5"),
        endpoint(),
        tool("callable", function("double"), callable="mine.double"),
        tool("a.b.sandbox_fusion_tools.SandboxFusionTool"),
        described({"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}),
    ],
)
def test_valid_tools_are_accepted(good: Tool) -> None:
    check(good)


@pytest.mark.parametrize(
    ("bad", "param"),
    [
        (tool("nothing"), "class_name"),
        (tool("os.system"), "class_name"),
        (tool("ReTool"), "class_name"),
        (tool("sandbox", rate_limt=3), "config.rate_limt"),
        (tool("sandbox", rate_limit=0), "config.rate_limit"),
        (tool("sandbox", rate_limit="many"), "config.rate_limit"),
        (tool("sandbox", type="mcp"), "config.type"),
        (tool("sandbox", default_language="klingon"), "config.default_language"),
        (tool("sandbox", default_timeout=float("nan")), "config.default_timeout"),
        (tool("sandbox", sandbox_fusion_url="file:///etc/passwd"), "config.sandbox_fusion_url"),
        (tool("search", topk=0), "config.topk"),
        (tool("search", sandbox_fusion_url="http://x/"), "config.sandbox_fusion_url"),
        (tool("http", function("ask")), "config.url"),
        (tool("http", url="https://tools.example/x"), "tool_schema"),
        (tool("callable", callable="mine.double"), "tool_schema"),
        (tool("callable", function("f"), callable="mine"), "config.callable"),
        (endpoint("https://key@tools.example/x"), "config.url"),
        (endpoint("https://u:key@tools.example/x"), "config.url"),
        (endpoint("https://tools.example/x#part"), "config.url"),
        (tool("sandbox", {}), "tool_schema.function"),
        (tool("sandbox", {"type": "builtin", "function": {"name": "a"}}), "tool_schema.type"),
        (tool("sandbox", {"function": {"name": "a b"}}), "tool_schema.function.name"),
        (tool("sandbox", {"function": {"name": "a", "description": "x" * 70_000}}), "tool_schema"),
        (
            tool("sandbox", function("run", program={"type": "string"})),
            "tool_schema.function.parameters.properties",
        ),
        (tool("search", function("find")), "tool_schema.function.parameters.properties"),
        (described({"type": "objekt"}), "tool_schema.function.parameters"),
        (described({"$ref": "http://127.0.0.1/x"}), "tool_schema.function.parameters"),
        (described({"$ref": "file:///etc/passwd"}), "tool_schema.function.parameters"),
        (described({"properties": {"x": {"pattern": "(?=a)"}}}), "tool_schema.function.parameters"),
        (described({"patternProperties": {"a": {}}}), "tool_schema.function.parameters"),
    ],
)
def test_an_invalid_tool_is_refused_naming_the_field(bad: Tool, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(tool("search"), bad)

    assert caught.value.param == f"tools[1].{param}"


def test_an_overly_deep_schema_is_refused() -> None:
    schema: JsonObject = {}
    for _ in range(200):
        schema = {"items": schema}

    with pytest.raises(InvalidRequest, match="nested deeper"):
        check(described(schema))


@pytest.mark.parametrize(
    "bad",
    [
        endpoint("https://elsewhere.example/x"),
        endpoint("http://tools.example/x"),
        endpoint("https://tools.example:8443/x"),
        endpoint("http://localhost:8080/run_code"),
        endpoint("http://169.254.169.254/latest"),
        tool("sandbox", sandbox_fusion_url="http://localhost:8080/v1/files"),
        tool("sandbox", sandbox_fusion_url="http://localhost:8080/retrieve"),
        tool("sandbox", sandbox_fusion_url="http://localhost:8080/run_code?x=1"),
        tool("sandbox", sandbox_fusion_url="http://localhost:9999/run_code"),
        tool("search", retrieval_service_url="http://localhost:8080/run_code"),
        tool("callable", function("f"), callable="os.system"),
    ],
)
def test_tools_not_allowed_by_the_operator_are_forbidden(bad: Tool) -> None:
    with pytest.raises(PermissionDenied) as caught:
        check(bad)

    assert (caught.value.param or "").startswith("tools[0].config.")


def test_duplicate_tool_names_are_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(tool("sandbox"), tool("retool"))

    assert caught.value.param == "tools[1].tool_schema.function.name"


def test_the_field_path_can_have_a_prefix() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_tools([tool("x")], [], [], param="method.ppo.hyperparameters.tools")

    assert caught.value.param == "method.ppo.hyperparameters.tools[0].class_name"
