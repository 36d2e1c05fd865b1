"""Tools against the real sandbox and the real retrieval service."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.core.web.auth import hash_key
from services.rollouts.tools import Toolbox, ToolReply, open_toolbox
from services.rollouts.tools.toolbox import REPEAT_SECONDS
from tests.support.processes import running_gateway
from tests.support.sandbox import running_sandbox
from tests.support.search.library import LIBRARY
from tests.support.search.service import build_index, running_retrieval

KEY = "temper-tools"
RETOOL = Tool(
    class_name="mindspeed_rl.tools.retool.ReTool",
    config={"sandbox_fusion_url": "http://localhost:8080/run_code", "default_timeout": 20},
)
SEARCH = Tool(
    class_name="mindspeed_rl.tools.search_tool.SearchTool",
    config={"retrieval_service_url": "http://localhost:8080/retrieve", "topk": 2},
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorEnvironment]:
    """Both services, as a worker's settings locate them."""
    folder = tmp_path_factory.mktemp("tools")
    build_index(folder / "indexes", "library", LIBRARY)
    with (
        running_sandbox(folder) as sandbox,
        running_retrieval(folder, folder / "indexes", "library") as retrieval,
    ):
        yield OperatorEnvironment(sandbox_url=sandbox.url, retrieval_url=retrieval.url)


def replies(
    environment: OperatorEnvironment,
    tool: Tool,
    *arguments: Mapping[str, object],
    repeat_seconds: float = REPEAT_SECONDS,
) -> list[ToolReply]:
    """The replies of concurrent calls."""

    async def run() -> list[ToolReply]:
        async with open_toolbox([tool], environment, repeat_seconds) as toolbox:
            return await asyncio.gather(*(_called(toolbox, given) for given in arguments))

    return asyncio.run(run())


async def _called(toolbox: Toolbox, arguments: Mapping[str, object]) -> ToolReply:
    return await toolbox.call(toolbox.schemas[0]["function"]["name"], dict(arguments))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("123456 * 654321", "80779853376\n"),
        ("```python\nx = 6\nfor i in range(2):\n    x *= 7\nx  # done\n```", "294\n"),
        ("print('é', '長')", "é 長\n"),
        ("import sys\nsys.exit(4)", "exit code 4"),
        ("import os\nos.kill(os.getpid(), 9)", "killed by signal 9"),
        ("x = 5", ""),
    ],
)
def test_code_is_run(environment: OperatorEnvironment, code: str, text: str) -> None:
    (reply,) = replies(environment, RETOOL, {"code": code})

    assert (reply.outcome, reply.text, reply.attempts) == (CallOutcome.ANSWERED, text, 1)


def test_a_traceback_shows_the_failing_line(environment: OperatorEnvironment) -> None:
    (reply,) = replies(environment, RETOOL, {"code": "numbers = []\nnumbers[3]"})

    assert reply.outcome is CallOutcome.ANSWERED
    assert "numbers[3]" in reply.text
    assert "IndexError" in reply.text


def test_an_endless_program_is_reported_to_the_model(environment: OperatorEnvironment) -> None:
    # Long enough for the program to print first, even on a busy machine.
    endless = RETOOL.model_copy(update={"config": {"default_timeout": 5}})
    code = "import time\nprint('a', flush=True)\nwhile True:\n    time.sleep(1)"

    (reply,) = replies(environment, endless, {"code": code})

    assert (reply.outcome, reply.text) == (
        CallOutcome.ANSWERED,
        "a\nTimeLimitExceeded after 5 s",
    )
    assert (reply.cause, reply.failures) == (None, 0)


def test_a_five_megabyte_output_arrives_in_full(environment: OperatorEnvironment) -> None:
    (reply,) = replies(environment, RETOOL, {"code": "print('x' * 5_000_000)"})

    assert reply.outcome is CallOutcome.ANSWERED
    assert reply.text.startswith("x" * 1_000_000)


def test_many_concurrent_calls_are_all_answered(environment: OperatorEnvironment) -> None:
    many = RETOOL.model_copy(update={"config": {"num_workers": 64, "rate_limit": 64}})

    answered = replies(environment, many, *({"code": f"{n} * 2"} for n in range(64)))

    assert [reply.text for reply in answered] == [f"{2 * n}\n" for n in range(64)]


def test_services_are_reached_through_a_gateway_with_keys(
    environment: OperatorEnvironment, tmp_path: Path
) -> None:
    settings = {
        "TEMPER_HOME": str(tmp_path / "home"),
        "TEMPER_API_KEY_HASHES": hash_key(KEY),
        "TEMPER_SANDBOX_URL": environment.sandbox_url,
        "TEMPER_RETRIEVAL_URL": environment.retrieval_url,
    }
    with running_gateway(settings, tmp_path / "gateway.log") as url:
        through = {"sandbox_url": url, "retrieval_url": url}
        known = OperatorEnvironment(sandbox_api_key=KEY, retrieval_api_key=KEY, **through)
        unknown = OperatorEnvironment(sandbox_api_key="sk-wrong", **through)
        (ran,) = replies(known, RETOOL, {"code": "6 * 7"})
        (found,) = replies(known, SEARCH, {"query_list": ["longest river"]})
        (refused,) = replies(unknown, RETOOL, {"code": "6 * 7"})

    assert ran.text == "42\n"
    assert "Nile" in found.text
    assert refused.outcome is CallOutcome.FAILED
    assert refused.cause is InfrastructureCause.MISCONFIGURED
    assert "401" in refused.text
    assert "sk-wrong" not in str(refused)


def test_passages_are_found(environment: OperatorEnvironment) -> None:
    queries = ["longest river", "steam ships of the Atlantic"]
    (reply,) = replies(environment, SEARCH, {"query_list": queries})

    first, second = json.loads(reply.text)["result"].split("\n---\n")
    assert first.startswith('Doc 1 (Title: "Nile")\n')
    assert second.startswith('Doc 1 (Title: "Great Western")\n')


def test_a_refused_search_is_reported_as_invalid_arguments(
    environment: OperatorEnvironment,
) -> None:
    (reply,) = replies(environment, SEARCH, {"query_list": ["a"] * 10_000})

    assert (reply.outcome, reply.cause) == (CallOutcome.INVALID_ARGUMENTS, None)
    assert "result" in json.loads(reply.text)


def test_a_missing_index_is_not_the_models_mistake(environment: OperatorEnvironment) -> None:
    missing = SEARCH.model_copy(update={"config": {**SEARCH.config, "index": "absent"}})

    (reply,) = replies(environment, missing, {"query_list": ["longest river"]})

    assert (reply.cause, reply.failures) == (InfrastructureCause.MISCONFIGURED, 1)


def test_a_language_that_is_not_installed_is_the_models_choice(
    environment: OperatorEnvironment,
) -> None:
    properties = {name: {"type": "string"} for name in ("code", "language")}
    parameters = {"type": "object", "properties": properties, "required": ["code"]}
    schema = {"type": "function", "function": {"name": "run", "parameters": parameters}}
    tool = Tool(class_name="sandbox", config={"default_timeout": 20}, tool_schema=schema)
    rare = ("lean", "swift", "julia", "verilog", "racket")

    answered = replies(environment, tool, *({"code": "1", "language": name} for name in rare))

    missing = [reply for reply in answered if "is not installed" in reply.text]
    if not missing:
        pytest.skip("every language is installed")
    known = {(reply.outcome, reply.cause, reply.failures) for reply in missing}
    assert known == {(CallOutcome.INVALID_ARGUMENTS, None, 0)}


@pytest.mark.parametrize(
    "code", ["1/0", "import os; os.abort()", "x = bytearray(1 << 34)", "print("]
)
def test_a_program_that_fails_is_not_the_infrastructures(
    environment: OperatorEnvironment, code: str
) -> None:
    (reply,) = replies(environment, RETOOL, {"code": code})

    assert (reply.outcome, reply.cause) == (CallOutcome.ANSWERED, None)


@pytest.mark.drill
@pytest.mark.skipif((os.cpu_count() or 1) > 8, reason="too many processors to keep busy")
def test_a_program_that_other_programs_starve_is_not_too_slow(tmp_path: Path) -> None:
    """Four endless programs for each processor; one that sleeps waits for nothing."""
    number = 4 * (os.cpu_count() or 1)
    config = {"num_workers": 64, "rate_limit": 64, "default_timeout": 4}
    tool = RETOOL.model_copy(update={"config": config})
    limits = {
        "TEMPER_SANDBOX_CONCURRENCY": str(number + 1),
        "TEMPER_SANDBOX_BUSY_PROGRAMS": str(number + 1),
    }
    with running_sandbox(tmp_path, **limits) as sandbox:
        environment = OperatorEnvironment(sandbox_url=sandbox.url)
        endless = [{"code": "while True: pass"}] * number
        sleeping = {"code": "import time; time.sleep(100)"}
        *starved, asleep = replies(environment, tool, *endless, sleeping, repeat_seconds=0.0)

    causes = Counter(reply.cause for reply in starved)
    assert causes[InfrastructureCause.NO_PROCESSOR_TIME] > number / 2
    assert (asleep.outcome, asleep.cause) == (CallOutcome.ANSWERED, None)
    assert "TimeLimitExceeded" in asleep.text


@pytest.mark.drill
def test_a_full_queue_and_a_killed_sandbox_are_failures_of_the_infrastructure(
    tmp_path: Path,
) -> None:
    """With its queue full the sandbox is overloaded; calls are answered if they are repeated."""
    config = {"num_workers": 8, "rate_limit": 8, "default_timeout": 30}
    tool = RETOOL.model_copy(update={"config": config})
    busy = {"code": "import time\nend = time.time() + 1\nwhile time.time() < end: pass"}
    limits = {
        "TEMPER_SANDBOX_CONCURRENCY": "1",
        "TEMPER_SANDBOX_BUSY_PROGRAMS": "1",
        "TEMPER_SANDBOX_QUEUE_SECONDS": "0.2",
    }
    with running_sandbox(tmp_path, **limits) as sandbox:
        environment = OperatorEnvironment(sandbox_url=sandbox.url)
        once = replies(environment, tool, *[busy] * 6, repeat_seconds=0.0)
        again = replies(environment, tool, *[busy] * 6)

        async def killed() -> ToolReply:
            async with open_toolbox([tool], environment, 0.0) as toolbox:
                endless = asyncio.create_task(_called(toolbox, {"code": "while True: pass"}))
                await asyncio.sleep(1.0)  # wherever the kill hits it, the call is lost
                sandbox.process.kill()
                return await endless

        lost = asyncio.run(killed())
        (after,) = replies(environment, tool, {"code": "1"}, repeat_seconds=0.0)

    refused = [reply for reply in once if reply.cause is not None]
    assert refused
    assert {reply.cause for reply in refused} == {InfrastructureCause.OVERLOADED}
    assert {reply.outcome for reply in again} == {CallOutcome.ANSWERED}
    assert any(reply.failures for reply in again)
    assert lost.cause in {InfrastructureCause.RESET, InfrastructureCause.REFUSED}
    assert after.cause is InfrastructureCause.REFUSED
