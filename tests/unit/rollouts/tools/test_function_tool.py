"""Tools that are Python functions."""

from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import PermissionDenied
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import ToolReply
from tests.unit.rollouts.tools.toolboxes import call, function

HERE = "tests.unit.rollouts.tools.test_function_tool"


def double(value: Any) -> Any:
    return value * 2


def hang(value: Any) -> None:
    while True:
        pass


def use(name: str, arguments: JsonObject, **config: Any) -> ToolReply:
    path = f"{HERE}.{name}"
    tool = Tool(
        class_name="callable",
        config={"callable": path, **config},
        tool_schema=function("double", value={}),
    )
    return call(tool, arguments, OperatorEnvironment(allowed_callables=(path,)))


@pytest.mark.parametrize(("value", "text"), [("é", "éé"), (2, "4"), ([None], "[null, null]")])
def test_the_return_value_is_the_reply(value: Any, text: str) -> None:
    reply = use("double", {"value": value})

    assert (reply.outcome, reply.text, reply.attempts) == (CallOutcome.ANSWERED, text, 1)


def test_a_function_that_raises_fails_the_call() -> None:
    reply = use("double", {"value": {}})

    assert reply.outcome is CallOutcome.FAILED
    assert "TypeError" in reply.text


def test_a_function_that_hangs_fails_the_call() -> None:
    reply = use("hang", {"value": 1}, timeout=0.2)

    assert reply.outcome is CallOutcome.TIMED_OUT


def test_invalid_arguments_do_not_call_the_function() -> None:
    assert use("double", {}).outcome is CallOutcome.INVALID_ARGUMENTS


def test_a_toolbox_with_a_forbidden_function_does_not_open() -> None:
    config = {"callable": "os.system"}
    tool = Tool(class_name="callable", config=config, tool_schema=function("system"))

    with pytest.raises(PermissionDenied) as caught:
        call(tool, {})

    assert caught.value.param == "tools[0].config.callable"
