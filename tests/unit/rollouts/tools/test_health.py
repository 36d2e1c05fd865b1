"""Tools that fail are found before the first prompt and reported during the job."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import JobFailed
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import (
    CallOutcome,
    FinishReason,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import REPORTS, Reporter
from services.rollouts.outages import FAILURES_TO_WARN, ToolMonitor
from services.rollouts.tools import Toolbox
from services.rollouts.tools.health import check_tools_respond, check_tools_shown
from tests.support.rollouts import CharacterChat
from tests.unit.inference.scripted_server import Behavior, ScriptedServer, answer
from tests.unit.rollouts.tools.toolboxes import function, with_tools


def probed(tool: Tool, environment: OperatorEnvironment | None = None) -> None:
    """Probe a tool as a job does before its first prompt."""

    async def ask(toolbox: Toolbox) -> None:
        await check_tools_respond([tool], toolbox)

    with_tools([tool], ask, environment)


def trajectory(outcome: CallOutcome) -> Trajectory:
    call = ToolCallRecord(name="search", arguments={}, outcome=outcome, error="no index")
    turn = Turn(text="", token_start=0, token_count=0, finish_reason="stop", calls=[call])
    return Trajectory(
        id="traj-0-0",
        prompt_index=0,
        messages=[],
        prompt_token_ids=[],
        turns=[turn],
        finish_reason=FinishReason.ANSWERED,
    )


def warnings(folder: Path) -> list[str]:
    path = folder / REPORTS
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["message"] for line in lines]


def test_tools_that_the_template_leaves_out_are_named(tmp_path: Path) -> None:
    class ForgetfulChat(CharacterChat):
        def prompt(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
            return super().prompt(messages, tools[:1])

    async def check(toolbox: Toolbox) -> None:
        check_tools_shown(toolbox, CharacterChat(), Reporter(tmp_path))
        assert warnings(tmp_path) == []
        check_tools_shown(toolbox, ForgetfulChat(), Reporter(tmp_path))

    config = {"url": "http://127.0.0.1:9"}
    schemas = [function("shown"), function("forgotten")]
    tools = [Tool(class_name="http", config=config, tool_schema=schema) for schema in schemas]
    with_tools(tools, check)

    assert warnings(tmp_path) == ["the chat template leaves out tools: forgotten"]


def test_a_search_tool_without_its_index_fails_the_job_at_startup(
    server: ScriptedServer,
) -> None:
    missing = b'{"error": {"message": "index wiki does not exist"}}'
    server.script = [answer(404, body=missing)]
    tool = Tool(class_name="search", config={"retrieval_service_url": server.url, "index": "wiki"})

    with pytest.raises(JobFailed, match=r"does not respond: .*index wiki does not exist"):
        probed(tool)


LANGUAGE = {
    "type": "function",
    "function": {
        "name": "code_interpreter",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "language": {"type": "string"}},
        },
    },
}


@pytest.mark.parametrize(
    ("response", "config", "schema", "reason"),
    [
        (
            answer(422, body={"error": {"message": "run_timeout: is above 300 s"}}),
            {"default_timeout": 600},
            None,
            "run_timeout: is above 300 s",
        ),
        (
            answer(body={"status": "SandboxError", "message": "ruby is not installed"}),
            {"default_language": "ruby"},
            LANGUAGE,
            "ruby is not installed",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["sandbox", "retool"])
def test_settings_that_the_sandbox_refuses_fail_the_job_at_startup(
    server: ScriptedServer,
    response: Behavior,
    config: JsonObject,
    schema: JsonObject | None,
    reason: str,
    kind: str,
) -> None:
    server.script = [response]
    url = f"{server.url}/run_code"
    tool = Tool(class_name=kind, config={"sandbox_fusion_url": url, **config}, tool_schema=schema)

    with pytest.raises(JobFailed, match=reason) as failed:
        probed(tool)

    assert failed.value.code == "tool_unavailable"


def http_tool(url: str) -> Tool:
    return Tool(class_name="http", config={"url": url}, tool_schema=function("pay"))


def test_an_http_tool_is_reached_but_not_called(server: ScriptedServer) -> None:
    probed(http_tool(server.url))

    assert server.requests == []


def test_an_unreachable_http_tool_fails_the_job_at_startup() -> None:
    with pytest.raises(
        JobFailed, match=r"tool 'pay' does not respond: .* was not reached"
    ) as failed:
        probed(http_tool("http://127.0.0.1:1/"))

    assert (failed.value.code, failed.value.param) == ("tool_unavailable", "tools[0]")


def pay() -> None:
    raise AssertionError("called")


def function_tool(path: str) -> tuple[Tool, OperatorEnvironment]:
    tool = Tool(class_name="callable", config={"callable": path}, tool_schema=function("pay"))
    return tool, OperatorEnvironment(allowed_callables=(path,))


def test_a_function_is_imported_but_not_called() -> None:
    probed(*function_tool("tests.unit.rollouts.tools.test_health.pay"))


def test_a_function_that_cannot_be_imported_fails_the_job_at_startup() -> None:
    with pytest.raises(JobFailed, match=r"tool 'pay' does not respond: .* cannot be imported"):
        probed(*function_tool("tests.unit.rollouts.tools.test_health.absent"))


def test_tool_that_fails_in_every_call_raises_one_warning(tmp_path: Path) -> None:
    monitor = ToolMonitor(Reporter(tmp_path))
    for _ in range(FAILURES_TO_WARN - 1):
        monitor.observe(trajectory(CallOutcome.FAILED))
    assert warnings(tmp_path) == []
    for _ in range(FAILURES_TO_WARN):
        monitor.observe(trajectory(CallOutcome.TIMED_OUT))
    (warning,) = warnings(tmp_path)
    assert "'search' failed in 8 consecutive calls; the last: no index" in warning


def test_tool_that_answers_occasionally_raises_no_warning(tmp_path: Path) -> None:
    monitor = ToolMonitor(Reporter(tmp_path))
    for _ in range(FAILURES_TO_WARN):
        monitor.observe(trajectory(CallOutcome.FAILED))
        monitor.observe(trajectory(CallOutcome.ANSWERED))
        monitor.observe(trajectory(CallOutcome.INVALID_ARGUMENTS))
    assert warnings(tmp_path) == []
