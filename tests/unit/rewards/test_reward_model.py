"""The process of a reward model breaks, hangs and answers nonsense; rewards go on."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from services.rewards import RewardEnvironment, open_scorer, reward_model
from services.rewards.reward_models.messages import told_to_user
from tests.support.rewards import failure, rewarded_all, trajectory, weighted

REWARD = {"type": "reward_model", "model": "rm", "batch_size": 4}
READY = 'say({"ready": True})'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def played(folder: Path, program: str) -> RewardEnvironment:
    """An environment whose runtime has a Python that only knows this program.

    ``starts`` is how often it was started before; it scores by the length of the last message.
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
def say(message):
    print(json.dumps(message), flush=True)
def ask():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    conversations = json.loads(line)["conversations"]
    note(str(len(conversations)))
    return conversations
def score(conversations):
    say({{"scores": [len(each[-1]["content"]) for each in conversations]}})
note("start")
{program}
"""
    )
    python.chmod(0o755)
    return RewardEnvironment(reward_models={"rm": folder}, model_python=python)


def log(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


def test_what_waits_is_scored_in_batches_by_one_process(folder: Path) -> None:
    environment = played(folder, f"{READY}\nwhile True: score(ask())")
    samples = [trajectory("x" * length) for length in range(10)]

    judged = rewarded_all(samples, REWARD, environment=environment)

    assert [each.reward for each in judged] == list(range(10))
    starts, *batches = log(folder)
    assert starts == "start"
    assert sum(map(int, batches)) == 10
    assert max(map(int, batches)) <= 4
    assert len(batches) <= 4


def test_a_sigmoid_maps_scores_between_0_and_1(folder: Path) -> None:
    program = f'{READY}\nask(); say({{"scores": [-1000.0]}}); ask(); say({{"scores": [0]}})'
    reward = REWARD | {"sigmoid": True, "batch_size": 1}

    judged = rewarded_all(
        [trajectory("a"), trajectory("b")], reward, environment=played(folder, program)
    )

    assert [each.reward for each in judged] == [0.0, 0.5]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ('say({"error": "it cannot be loaded: no such file"})', "no such file"),
        ("sys.exit(3)", "its process ended"),
        (f"{READY}\nask(); os._exit(1)", "its process ended"),
        (f'{READY}\nask(); say({{"error": "out of memory"}}); ask()', "out of memory"),
        (f'{READY}\nask(); print("noise", flush=True); ask()', "its process ended"),
        (f'{READY}\nask(); say({{"scores": [1, 2]}}); ask()', "another number"),
        (f'{READY}\nask(); say({{"scores": [float("nan")]}}); ask()', "nan"),
        (f'{READY}\nask(); say({{"scores": ["good"]}}); ask()', "good"),
        (f"{READY}\nask(); say([1]); ask()", "no answer"),
        (f"{READY}\nask(); say({{}}); ask()", "no answer"),
        (f'{READY}\nask(); say({{"scores": 1}}); ask()', "no answer"),
    ],
)
def test_a_process_that_gives_no_score_is_told_of(folder: Path, program: str, told: str) -> None:
    assert told in failure(trajectory("a"), REWARD, played(folder, program))


def test_a_process_that_hangs_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_model, "BATCH_SECONDS", 0.3)

    told = failure(trajectory("a"), REWARD, played(folder, f"{READY}\nask(); time.sleep(600)"))

    assert "did not answer" in told


def test_a_runtime_that_is_gone_is_told_of(folder: Path) -> None:
    environment = RewardEnvironment(reward_models={"rm": folder}, model_python=folder / "absent")

    assert "cannot be started" in failure(trajectory("a"), REWARD, environment)


def test_after_a_broken_process_the_next_batch_gets_another(folder: Path) -> None:
    program = f"{READY}\nif starts == 0: ask(); os._exit(1)\nwhile True: score(ask())"
    samples = [trajectory("x" * length) for length in range(6)]

    judged = rewarded_all(samples, REWARD, environment=played(folder, program))

    rewards = [each.reward for each in judged]
    assert rewards == [None, None, None, None, 4.0, 5.0]
    assert log(folder).count("start") == 2


def test_who_does_not_wait_any_more_is_not_scored(folder: Path) -> None:
    program = f"{READY}\nwhile True: score(ask())"
    environment = played(folder, program)

    async def ask() -> Any:
        async with open_scorer(weighted(REWARD), environment) as scorer:
            gone = asyncio.create_task(scorer.score(trajectory("gone")))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.wait((gone,))
            return await scorer.score(trajectory("here"))

    assert asyncio.run(ask()).reward == 4.0
    assert log(folder) == ["start", "1"]


def test_nothing_is_started_before_the_first_trajectory(folder: Path) -> None:
    environment = played(folder, READY)

    async def open_only() -> None:
        async with open_scorer(weighted(REWARD), environment):
            pass

    asyncio.run(open_only())

    assert not (folder / "log").exists()


def test_core_without_torch_says_what_is_missing(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({}))
    environment = RewardEnvironment(reward_models={"rm": folder}, model_python=Path(sys.executable))

    assert "torch" in failure(trajectory("a"), REWARD, environment)


def test_tools_speak_as_users_where_a_template_knows_no_tools() -> None:
    user, turn = {"role": "user", "content": "?"}, {"role": "assistant", "content": "call"}
    replies = [{"role": "tool", "name": "run", "content": text} for text in ("1", "2")]

    told = told_to_user([user, turn, *replies, turn])

    both = "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
    assert told == [user, turn, {"role": "user", "content": both}, turn]
    assert told_to_user([user, replies[0]])[0]["content"].startswith("?\n<tool_response>")
    assert user["content"] == "?"
