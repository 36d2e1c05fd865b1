"""The policy's engine over a real vLLM, whose weights are exchanged under its requests."""

import asyncio
import json
import subprocess
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from services.contracts.engine import Drafts, VllmOptions
from services.core.process.runtimes import Runtime, child_environment
from services.core.process.supervised import WATCHDOG
from services.inference.relay_protocol import read_endpoint
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.trainer.rl.policy_server import PolicyEngine
from services.trainer.rl.policy_server.guests import open_to_guests
from services.trainer.rl.spec import GuestSpec
from services.trainer.rl.speculation import Lookup, Replay
from services.trainer.rl.weight_sync import LogprobReference, SyncReport, WeightChanges
from tests.support.rl.distribution import LARGEST_DISTANCE, LARGEST_SURPLUS, distance, surplus
from tests.support.runtimes import installed_runtime

pytestmark = pytest.mark.runtime

LARGEST_DIFFERENCE = 1e-3
LONGEST = 1500
TURNS = 6
SHORT = TurnSampling(max_tokens=4, seed=100)
DRAFTS = Drafts(tokens=3, min_match=2, max_match=4)
LETTERS = 4
"""Tokens that the repeating model writes."""


@dataclass(frozen=True)
class Published:
    """What learners published, and what each says of the probes."""

    folder: Path
    base: Path
    probes: list[list[int]]
    said: dict[str, list[list[float]]]

    def reference(self, name: str) -> LogprobReference:
        return LogprobReference(self.probes, self.said[name])


@pytest.fixture(scope="module")
def vllm() -> Runtime:
    return installed_runtime("vllm")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    training = installed_runtime("training")
    folder = tmp_path_factory.mktemp("policy")
    base = folder / "base"
    subprocess.run(
        [training.python, "-m", "tests.support.models.published_policy", folder, base],
        check=True,
        capture_output=True,
        timeout=300,
        env=child_environment({}),
    )
    probes = json.loads((folder / "probes.json").read_text())
    return Published(folder, base, probes, json.loads((folder / "log_probs.json").read_text()))


def servers_of(model: Path) -> list[psutil.Process]:
    """The processes that serve a model for this one; each is its watchdog's only child."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # another, which has ended
            command = process.cmdline()
            if f"--model={model}" in command and str(WATCHDOG) not in command:
                found.append(process)
    return found


def root_of(server: psutil.Process) -> str:
    """Where a process listens."""
    (port,) = {c.laddr.port for c in server.net_connections("tcp4") if c.status == "LISTEN"}
    return f"http://127.0.0.1:{port}"


async def turns_under_way(
    engine: PolicyEngine, prompt: Sequence[int]
) -> "asyncio.Task[list[SampledTokens]]":
    """Turns that have begun, since one that came after them is done; most are long."""
    samplings = [TurnSampling(max_tokens=LONGEST, seed=seed) for seed in range(TURNS)]
    works = [engine.generate(prompt, sampling) for sampling in samplings]
    turns = asyncio.create_task(together(works))
    await asyncio.sleep(0)
    await engine.generate(prompt, SHORT)
    return turns


async def together(works: Sequence[Coroutine[None, None, SampledTokens]]) -> list[SampledTokens]:
    return list(await asyncio.gather(*works))


def mixed(versions: Sequence[int]) -> int:
    """How many tokens the less frequent of the versions 2 and 3 sampled."""
    return min(versions.count(2), versions.count(3))


async def gaps(
    engine: PolicyEngine, prompt: Sequence[int], sampled: SampledTokens
) -> NDArray[np.float64]:
    """Difference between the sampled log-probabilities and those of the current weights."""
    asked = await engine.prompt_log_probs([*prompt, *sampled.token_ids])
    difference: NDArray[np.float64] = np.subtract(
        asked.tokens[len(prompt) - 1 :], np.array(sampled.log_probs)
    )
    return np.abs(difference)


async def check_distribution(engine: PolicyEngine, *, drafts: bool) -> None:
    """Compare thousands of tokens with what the engine says of them when it reads them, at a
    temperature other than 1; those that drafts propose by themselves, too."""
    prompt, temperature = [0, 1, 2, 3, 0, 1, 2], 0.8
    before = await engine.counters()
    samplings = [
        TurnSampling(max_tokens=160, temperature=temperature, seed=seed if seed % 2 else None)
        for seed in range(48)
    ]
    turns = await together([engine.generate(prompt, each) for each in samplings])
    counted = (await engine.counters()).since(before)

    asked = [engine.prompt_log_probs([*prompt, *each.token_ids], 2 * LETTERS) for each in turns]
    replay, drafted, tokens = Replay(), list[int](), list[int]()
    log_probs, rows = list[float](), list[NDArray[np.float64]]()
    for turn, said in zip(turns, await asyncio.gather(*asked), strict=True):
        replay.add(DRAFTS, prompt, turn.token_ids, [True] * len(turn.token_ids))
        known = Lookup(DRAFTS, prompt)
        for token in turn.token_ids:
            drafted.append((known.draft() or [-1])[0])
            known.append(token)
        tokens += turn.token_ids
        log_probs += turn.log_probs
        top = zip(
            said.top_ids[len(prompt) - 1 :], said.top_log_probs[len(prompt) - 1 :], strict=True
        )
        for ids, values in top:
            chances = np.zeros(2**10)
            chances[ids] = np.exp(values / temperature)
            assert chances[LETTERS:].sum() < 1e-3 * chances.sum()
            rows.append(chances[:LETTERS] / chances[:LETTERS].sum())
    chances, proposed, chosen = np.array(rows), np.array(drafted), np.array(tokens)
    own = chances[np.arange(len(chosen)), chosen]
    assert np.abs(np.log(own) - np.array(log_probs)).max() < 1e-2

    has_draft = proposed >= 0
    assert has_draft.sum() > 4_000
    assert distance(chosen, chances) < LARGEST_DISTANCE
    assert distance(chosen[has_draft], chances[has_draft]) < LARGEST_DISTANCE
    hits = (chosen == proposed)[has_draft]
    assert abs(surplus(hits, chances[has_draft, proposed[has_draft]])) < LARGEST_SURPLUS

    assert counted.generated == len(tokens)
    if drafts:
        assert counted.accepted > 1_000
        # The last pass of a turn may draft beyond its end.
        assert abs(counted.generated - counted.accepted - replay.passes) <= len(turns)
    else:
        assert counted.drafted == counted.accepted == 0


async def told_a_guest(engine: PolicyEngine, prompt: Sequence[int], folder: Path) -> dict[str, int]:
    """The model that answers a gateway request, and the number of its prompt tokens."""
    async with open_to_guests(engine, GuestSpec(host="127.0.0.1", epoch=1), folder):
        found = read_endpoint(folder, 1)
        assert found is not None
        key = {"Authorization": f"Bearer {found.secret}"}
        body = {"model": "run:ftjob-1", "prompt": list(prompt), "max_tokens": 4}
        async with httpx.AsyncClient(headers=key, timeout=120, trust_env=False) as client:
            answer = (await client.post(f"{found.url}/v1/completions", json=body)).json()
    return {answer["model"]: answer["usage"]["prompt_tokens"]}


async def refused(root: str) -> dict[str, int]:
    """The status for a missing or a wrong key."""
    routes = ["/health", "/pause", "/collective_rpc", "/sleep", "/v1/models", "/metrics"]
    headers = {"Authorization": "Bearer another"}
    async with httpx.AsyncClient(base_url=root, headers=headers, trust_env=False) as client:
        return {route: (await client.request("GET", route)).status_code for route in routes}


def test_full_weights_are_swapped_during_turns(
    vllm: Runtime, published: Published, tmp_path: Path
) -> None:
    prompt = published.probes[0]

    async def run() -> None:
        async with PolicyEngine(
            vllm.python,
            published.folder / "first",
            tmp_path,
            VllmOptions(max_model_len=2048, speculation=DRAFTS),
            tokenizer=published.base,
        ) as engine:

            async def load(
                version: int, name: str, changes: WeightChanges | None = None
            ) -> SyncReport:
                reference = published.reference(name)
                return await engine.load(version, published.folder / name, reference, changes)

            assert engine.context_length == 2048
            fresh = await engine.prompt_log_probs(prompt)
            assert (await load(0, "first")).restarted is None

            # Only what changed is loaded; changed back, it is bit by bit what a new engine has.
            names = json.loads((published.folder / "patched.json").read_text())
            for version, name in ((1, "patched"), (2, "first")):
                report = await load(version, name, WeightChanges(version - 1, names))
                assert report.restarted is None
                assert report.largest_difference < LARGEST_DIFFERENCE
            assert np.array_equal((await engine.prompt_log_probs(prompt)).tokens, fresh.tokens)

            # A turn continues with new weights; its KV cache is recomputed.
            turns = await turns_under_way(engine, prompt)
            report = await load(3, "second")
            sampled = max(await turns, key=lambda each: mixed(each.policy_versions))
            split, length = sampled.policy_versions.count(2), len(sampled.token_ids)
            assert report.restarted is None
            assert report.largest_difference < LARGEST_DIFFERENCE
            assert sampled.policy_versions == (2,) * split + (3,) * (length - split)
            assert 0 < split < length
            difference = await gaps(engine, prompt, sampled)
            assert difference[split:].max() < LARGEST_DIFFERENCE < difference[:split].mean()

            # Asleep, it answers no request; awake, it continues.
            turns = await turns_under_way(engine, prompt)
            await engine.sleep()
            late = asyncio.create_task(engine.generate(prompt, SHORT))
            assert not (await asyncio.wait([turns, late], timeout=0.5))[0]
            await engine.wake()
            for sampled in [*await turns, await late]:
                assert set(sampled.policy_versions) == {3}

            # Drafts change no distribution, and are switched in a running engine.
            assert (await load(4, "repeating")).restarted is None
            await check_distribution(engine, drafts=True)
            await engine.draft(on=False)
            await check_distribution(engine, drafts=False)
            await engine.draft(on=True)

            # vLLM loads whatever it finds: with no output layer here, it would keep the old one.
            turns = await turns_under_way(engine, prompt)
            report = await load(5, "tied")
            assert report.restarted is not None
            assert "log-probabilities differ" in report.restarted
            assert report.largest_difference < LARGEST_DIFFERENCE
            assert {5} in [set(sampled.policy_versions) for sampled in await turns]

            # Tied embeddings are exchanged like others.
            report = await load(6, "tied-2")
            assert report.restarted is None
            assert report.largest_difference < LARGEST_DIFFERENCE

    asyncio.run(asyncio.wait_for(run(), 500))


def test_adapters_are_swapped_and_survive_a_server_restart(
    vllm: Runtime, published: Published, tmp_path: Path
) -> None:
    prompt = published.probes[0]

    async def run() -> None:
        async with PolicyEngine(
            vllm.python,
            published.base,
            tmp_path,
            VllmOptions(max_model_len=2048, speculation=DRAFTS.model_copy(update={"min_match": 1})),
            lora_rank=8,
        ) as engine:

            async def load(version: int, name: str) -> SyncReport:
                reference = published.reference(name)
                return await engine.load(version, published.folder / name, reference)

            (server,) = servers_of(published.base)
            statuses = await refused(root_of(server))
            assert statuses.pop("/health") == 200
            assert set(statuses.values()) == {401}

            # A turn finishes with its adapter, however many come after it.
            assert set((await engine.generate(prompt, SHORT)).policy_versions) == {0}
            assert (await load(1, "adapter-1")).largest_difference < LARGEST_DIFFERENCE
            turns = await turns_under_way(engine, prompt)
            for version in (2, 3, 4):
                report = await load(version, f"adapter-{2 - version % 2}")
                assert report.restarted is None
                assert report.largest_difference < LARGEST_DIFFERENCE
            newer = await engine.generate(prompt, SHORT)
            assert set(newer.policy_versions) == {4}
            assert {v for each in await turns for v in each.policy_versions} == {1}
            assert (await gaps(engine, prompt, newer)).max() < LARGEST_DIFFERENCE

            # Others than rollouts are answered by the adapter of now.
            assert await told_a_guest(engine, prompt, tmp_path) == {"policy-4-3": len(prompt)}

            # Killed, it is replaced, with the adapter; its requests are answered.
            turns = await turns_under_way(engine, prompt)
            server.kill()
            for sampled in await turns:
                assert set(sampled.policy_versions) == {4}
            assert (await gaps(engine, prompt, sampled)).max() < LARGEST_DIFFERENCE

    asyncio.run(asyncio.wait_for(run(), 500))
    assert servers_of(published.base) == []
