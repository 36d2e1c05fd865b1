"""Scoring survives a reward model process that crashes, hangs or returns garbage."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from services.contracts.failures import InfrastructureCause
from services.core.operator_environment import OperatorEnvironment
from services.core.process.worker_pool import WorkerPool
from services.rewards import reward_model
from services.rewards.reward_models.messages import Message, rendered, tool_replies_as_user
from services.rewards.scorer import open_scorer
from tests.support.rewards import failure, rewarded_all, trajectory, weighted

REWARD = {"type": "reward_model", "model": "rm", "batch_size": 4}
READY = 'send({"ready": True})'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def environment_with(folder: Path, program: str) -> OperatorEnvironment:
    """An environment whose runtime's Python runs this program only.

    ``starts`` is the number of earlier starts; the score is the length of the last message.
    """
    python = folder / "python"
    python.write_text(
        f"""#!{sys.executable}
import json, os, sys, time
log = {str(folder / "log")!r}
starts = sum(line == "start\\n" for line in open(log)) if os.path.exists(log) else 0
def note(text):
    with open(log, "a") as file:
        file.write(text + "\\n")
def send(message):
    print(json.dumps(message), flush=True)
def ask():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    conversations = json.loads(line)["conversations"]
    note(str(len(conversations)))
    return conversations
def score(conversations):
    send({{"value": [len(each[-1]["content"]) for each in conversations]}})
note("start")
{program}
"""
    )
    python.chmod(0o755)
    return OperatorEnvironment(reward_models={"rm": folder}, model_python=python)


def log(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


def test_pending_conversations_are_scored_in_batches_by_one_process(folder: Path) -> None:
    environment = environment_with(folder, f"{READY}\nwhile True: score(ask())")
    samples = [trajectory("x" * length) for length in range(10)]

    judged = rewarded_all(samples, REWARD, environment=environment)

    assert [each.reward for each in judged] == list(range(10))
    starts, *batches = log(folder)
    assert starts == "start"
    assert sum(map(int, batches)) == 10
    assert max(map(int, batches)) <= 4
    assert len(batches) <= 4


def test_a_sigmoid_maps_scores_to_between_0_and_1(folder: Path) -> None:
    program = f'{READY}\nask(); send({{"value": [-1000.0]}}); ask(); send({{"value": [0]}})'
    reward = REWARD | {"sigmoid": True, "batch_size": 1}

    judged = rewarded_all(
        [trajectory("a"), trajectory("b")], reward, environment=environment_with(folder, program)
    )

    assert [each.reward for each in judged] == [0.0, 0.5]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ('send({"error": "no such file"})', "no such file"),
        ("sys.exit(3)", "ended its process"),
        (f"{READY}\nask(); os._exit(1)", "ended its process"),
        (f'{READY}\nask(); send({{"error": "out of memory"}}); ask()', "out of memory"),
        (f'{READY}\nask(); print("noise", flush=True); ask()', "not JSON"),
        (f'{READY}\nask(); send({{"value": [1, 2]}}); ask()', "no list of 1 scores"),
        (f'{READY}\nask(); send({{"value": [float("nan")]}}); ask()', "nan"),
        (f'{READY}\nask(); send({{"value": ["good"]}}); ask()', "good"),
        (f"{READY}\nask(); send([1]); ask()", "no answer"),
        (f"{READY}\nask(); send({{}}); ask()", "no answer"),
        (f'{READY}\nask(); send({{"value": 1}}); ask()', "no list of 1 scores"),
    ],
)
def test_the_reason_for_a_missing_score_is_reported(
    folder: Path, program: str, message: str
) -> None:
    assert message in failure(trajectory("a"), REWARD, environment_with(folder, program))


def test_a_hanging_process_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_model, "BATCH_SECONDS", 0.3)

    reason = failure(
        trajectory("a"), REWARD, environment_with(folder, f"{READY}\nask(); time.sleep(600)")
    )

    assert "did not answer" in reason


def test_a_missing_runtime_is_reported(folder: Path) -> None:
    environment = OperatorEnvironment(reward_models={"rm": folder}, model_python=folder / "absent")

    assert "could not be started" in failure(trajectory("a"), REWARD, environment)


def test_a_dead_process_is_replaced_for_the_next_batch(folder: Path) -> None:
    program = f"{READY}\nif starts == 0: ask(); os._exit(1)\nwhile True: score(ask())"
    samples = [trajectory("x" * length) for length in range(6)]

    judged = rewarded_all(samples, REWARD, environment=environment_with(folder, program))

    rewards = [each.reward for each in judged]
    assert rewards == [None, None, None, None, 4.0, 5.0]
    causes = [each.left_out.cause if each.left_out else None for each in judged]
    assert causes == [InfrastructureCause.KILLED] * 4 + [None] * 2
    assert log(folder).count("start") == 2


def test_an_unexpected_error_reaches_every_caller_and_scoring_continues(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, calls = WorkerPool.call, iter([True])

    async def fail_once(pool: WorkerPool, request: Any, seconds: float) -> Any:
        if next(calls, False):
            raise MemoryError("no more")
        return await call(pool, request, seconds)

    monkeypatch.setattr(WorkerPool, "call", fail_once)
    environment = environment_with(folder, f"{READY}\nwhile True: score(ask())")
    samples = [trajectory("x" * length) for length in range(6)]

    judged = rewarded_all(samples, REWARD, environment=environment)

    assert [each.reward for each in judged] == [None, None, None, None, 4.0, 5.0]


def test_cancelled_requests_are_not_scored(folder: Path) -> None:
    program = f"{READY}\nwhile True: score(ask())"
    environment = environment_with(folder, program)

    async def ask() -> Any:
        async with open_scorer(weighted(REWARD), environment) as scorer:
            gone = asyncio.create_task(scorer.score(trajectory("gone")))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.wait((gone,))
            return await scorer.score(trajectory("here"))

    assert asyncio.run(ask()).reward == 4.0
    assert log(folder) == ["start", "1"]


def test_the_process_starts_with_the_first_trajectory(folder: Path) -> None:
    environment = environment_with(folder, READY)

    async def open_only() -> None:
        async with open_scorer(weighted(REWARD), environment):
            pass

    asyncio.run(open_only())

    assert not (folder / "log").exists()


def test_a_runtime_without_torch_is_reported(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({}))
    environment = OperatorEnvironment(
        reward_models={"rm": folder}, model_python=Path(sys.executable)
    )

    assert "torch" in failure(trajectory("a"), REWARD, environment)


def test_a_reward_model_is_told_the_tools_that_were_on_offer(folder: Path) -> None:
    program = (
        f"{READY}\nrequest = json.loads(sys.stdin.readline())\n"
        'note(json.dumps(request["tools"], separators=(",", ":")))\n'
        'send({"value": [0.0 for _ in request["conversations"]]})'
    )
    samples = [trajectory("a"), trajectory("b", tools=TOOLS)]

    rewarded_all(samples, REWARD, environment=environment_with(folder, program))

    assert json.loads(log(folder)[1]) == [[], TOOLS]


TOOLS = [{"type": "function", "function": {"name": "search"}}]
ROLES: dict[str, list[Message]] = {
    "user": [{"role": "user", "content": "?"}],
    "tool": [{"role": "assistant", "content": "call"}, {"role": "tool", "content": "1"}],
}


@pytest.mark.parametrize(
    ("refuses", "messages", "expected"),
    [
        ((), "user", "search user"),
        ((), "tool", "search assistant tool"),
        (("tool",), "tool", "search assistant user"),
        (("search",), "user", "user"),
        (("search",), "tool", "assistant tool"),
        (("search", "tool"), "tool", "assistant user"),
    ],
)
def test_a_conversation_is_rendered_with_all_that_its_template_takes(
    refuses: tuple[str, ...], messages: str, expected: str
) -> None:
    def template(messages: list[Message], tools: list[Message] | None) -> str:
        names = [each["function"]["name"] for each in tools or ()]
        words = [*names, *(each["role"] for each in messages)]
        if any(each in refuses for each in words):
            raise ValueError("unknown")
        return " ".join(words)

    assert rendered(template, ROLES[messages], TOOLS) == expected


def test_a_conversation_that_a_template_refuses_in_every_form_says_why() -> None:
    def template(messages: list[Message], tools: list[Message] | None) -> str:
        raise ValueError(f"{len(messages)} messages, tools: {tools}")

    with pytest.raises(ValueError, match="1 messages, tools: None"):
        rendered(template, ROLES["user"], TOOLS)


def test_tool_replies_become_user_messages_for_templates_without_tools() -> None:
    user, turn = {"role": "user", "content": "?"}, {"role": "assistant", "content": "call"}
    replies = [{"role": "tool", "name": "run", "content": text} for text in ("1", "2")]

    converted = tool_replies_as_user([user, turn, *replies, turn])

    both = "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
    assert converted == [user, turn, {"role": "user", "content": both}, turn]
    assert tool_replies_as_user([user, replies[0]])[0]["content"].startswith("?\n<tool_response>")
    assert user["content"] == "?"
