"""The rollout child as a worker starts it: results, records and recovery."""

import math
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.agents import CallableAgent
from services.contracts.rollouts.trajectories import FinishReason
from services.core.artifacts import ModelSource
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import RESULT
from services.evaluator.serving import ENDPOINT_KEY
from tests.integration.rollout.rollout_job import (
    DEADLINE,
    RIGHT_BOX,
    RolloutJob,
    add,
    question,
    reply,
    tokenizer_folder,
)
from tests.support.engines.token_server import TokenServer
from tests.support.evaluation.trajectory_files import read_parquet
from tests.support.models.hub import Kind, Repository, running_hub


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer(tokenizer_folder(tmp_path / "tokenizer"), add, reply) as server:
        yield server


def test_every_prompt_is_sampled_rewarded_and_counted(tmp_path: Path, server: TokenServer) -> None:
    job = RolloutJob.of_server(tmp_path / "job", server, 20, samples_per_prompt=2)

    job.run(environment={ENDPOINT_KEY: "secret"})

    statistics = job.statistics()
    assert (statistics.prompts, statistics.trajectories, statistics.failed) == (20, 40, 0)
    assert statistics.finish_reasons == {"answered": 40}
    assert statistics.reward is not None
    assert (statistics.reward.mean, statistics.reward.ci95) == (1.0, (1.0, 1.0))
    assert (statistics.calls, statistics.failed_calls) == (40, 0)
    assert statistics.tools["add"].outcomes == {"answered": 40}
    assert statistics.turns.mean == 2.0
    assert server.authorizations == {"Bearer secret"}
    found = {each.id: each for each in job.trajectories()}
    assert set(found) == {f"traj-{n}-{k}" for n in range(20) for k in range(2)}
    assert found["traj-7-1"].turns[0].calls[0].reply == "15"
    assert found["traj-7-1"].turns[1].text == "The sum is \\boxed{15}<|im_end|>"
    parquet = job.folder / "trajectories.parquet"
    assert {each.id: each for each in read_parquet(parquet)} == found
    assert [report["phase"] for report in job.reports("phase")] == ["playing", "summarizing"]
    assert job.reports("progress")[-1]["step"] == 40
    assert job.reports("metrics")[-1]["metrics"]["reward"] == 1.0
    assert "secret" not in (job.folder / "spec.json").read_text()


def test_an_agent_with_a_client_of_its_own_plays_a_job(tmp_path: Path, server: TokenServer) -> None:
    function = "tests.integration.rollout.addition_agent.play"
    agent = CallableAgent(function=function, processes=2)
    given = WeightedReward.model_validate({"name": "own", "reward": {"type": "agent"}})
    job = RolloutJob.of_server(
        tmp_path / "job", server, 3, agent=agent, rewards=[RIGHT_BOX, given], tools=[]
    )
    operator = OperatorEnvironment(allowed_callables=(function,))

    job.run(environment={ENDPOINT_KEY: "secret", **operator.variables()})

    found = job.trajectories()
    assert [each.reward for each in found] == [2.0] * 3, [each.error for each in found]
    for each in found:
        assert [call.outcome.value for turn in each.turns for call in turn.calls] == ["answered"]
    by_loop = RolloutJob.of_server(tmp_path / "loop", server, 3)
    by_loop.run(environment={ENDPOINT_KEY: "secret"})
    tokens = {each.id: each.response_token_ids for each in by_loop.trajectories()}
    assert {each.id: each.response_token_ids for each in found} == tokens
    parquet = read_parquet(job.folder / "trajectories.parquet")
    assert sorted(parquet, key=lambda each: each.id) == sorted(found, key=lambda each: each.id)


@pytest.mark.drill
def test_finished_rollouts_are_not_repeated_after_random_stops(
    tmp_path: Path, server: TokenServer
) -> None:
    chance = random.Random(3)
    job = RolloutJob.of_server(tmp_path / "job", server, 120, max_concurrency=8)
    finished: dict[str, int] = {}
    for stop in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        more = chance.randint(1, 25)
        # However late it is stopped, this attempt cannot finish: it gets two turns for
        # each awaited rollout, one for each in flight, and a few more.
        server.most_answered = server.asked.total() + 2 * more + 8 + 16
        with job.child() as child:
            job.wait_for_trajectories(len(finished) + more)
            child.send_signal(stop)
            child.wait(DEADLINE)
        assert not (job.folder / RESULT).exists()
        for each in job.trajectories():
            times = asked(server, each.prompt_index)
            assert finished.setdefault(each.id, times) == times

    server.most_answered = math.inf
    job.run()

    assert {each.id for each in job.trajectories()} == {f"traj-{n}-0" for n in range(120)}
    assert job.statistics().trajectories == 120
    for each in job.trajectories():
        times = asked(server, each.prompt_index)
        assert finished.get(each.id, times) == times


def asked(server: TokenServer, prompt: int) -> int:
    """The number of turns sampled for a prompt."""
    return sum(
        times for prompt_text, times in server.asked.items() if question(prompt) in prompt_text
    )


@pytest.mark.drill
def test_a_rollout_failed_by_the_engine_is_recorded_and_repeated_by_the_next_attempt(
    tmp_path: Path, server: TokenServer
) -> None:
    server.script = lambda text, times: 400 if question(3) in text else add(text, times)
    job = RolloutJob.of_server(tmp_path / "job", server, 6)

    job.run()

    assert job.statistics().failed == 1
    (failed,) = [each for each in job.trajectories() if each.finish_reason.is_failure]
    assert (failed.id, failed.finish_reason) == ("traj-3-0", FinishReason.ENGINE_FAILED)
    assert "as scripted" in str(failed.error)
    assert failed.reward is None

    server.script = add
    (job.folder / RESULT).unlink()
    job.run()

    assert (job.statistics().trajectories, job.statistics().failed) == (6, 0)
    assert [asked(server, n) for n in range(6)] == [2, 2, 2, 3, 2, 2]


def test_a_server_that_refuses_every_request_fails_the_job_with_its_reason(
    tmp_path: Path, server: TokenServer
) -> None:
    server.script = lambda text, times: 401
    job = RolloutJob.of_server(tmp_path / "job", server, 50, max_concurrency=4)

    job.run()

    assert job.failure()["code"] == "endpoint_refused"
    assert "401" in job.failure()["message"]
    assert sum(server.asked.values()) < 50


def test_prompts_that_fill_the_context_are_recorded_with_the_reason(
    tmp_path: Path, server: TokenServer
) -> None:
    job = RolloutJob.of_server(tmp_path / "job", server, 2)
    job.write_prompts(
        [{"question": question(0), "gold": 1}, {"question": "x y z " * 4096, "gold": 1}]
    )

    job.run()

    refused = {each.id: each for each in job.trajectories()}["traj-1-0"]
    assert refused.finish_reason is FinishReason.PROMPT_REFUSED
    assert "4096" in str(refused.error)
    assert job.statistics().failed == 1


@pytest.mark.drill
def test_a_hub_tokenizer_is_downloaded_once(tmp_path: Path, server: TokenServer) -> None:
    source = ModelSource(hub_id="team/adder", revision="v1")
    folder = tmp_path / "tokenizer"
    (folder / "model.safetensors").write_bytes(b"never asked for")
    with running_hub() as hub:
        hub.add(Repository(Kind.MODEL, "team/adder", {"v1": folder}))
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
        job = RolloutJob.of_server(tmp_path / "job", server, 2, source)
        job.run(environment=environment)

    assert job.statistics().reward is not None
    assert not list((tmp_path / "cache").rglob("*.safetensors"))

    again = RolloutJob.of_server(tmp_path / "again", server, 2, source)
    again.run(environment={**environment, "HF_HUB_OFFLINE": "1"})
    assert again.statistics().failed == 0


def test_an_unavailable_tokenizer_fails_the_job_by_name(
    tmp_path: Path, server: TokenServer
) -> None:
    source = ModelSource(hub_id="team/absent")
    job = RolloutJob.of_server(tmp_path / "job", server, 2, source)

    job.run(environment={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")})

    assert job.failure()["code"] == "tokenizer_unavailable"
    assert "team/absent" in job.failure()["message"]
