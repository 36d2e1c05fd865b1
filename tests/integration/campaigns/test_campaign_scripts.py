"""Campaigns whose data scripts are scripts of a real sandbox."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.contracts.campaigns.loops import StepName
from services.jobs.campaign_records import request_key
from tests.integration.campaigns.test_campaigns import (
    GOOD,
    SETTINGS,
    Campaigns,
    Script,
    running_campaigns,
)
from tests.support.campaigns.scripted_llm import Messages
from tests.support.processes import free_port
from tests.support.programs.sandbox_scripts import KEY, ScriptClient
from tests.support.programs.sandbox_scripts import SETTINGS as SCRIPT_SETTINGS
from tests.support.sandbox import running_sandbox
from tests.support.waiting import wait_for

WAITING = f"""```python
import json, os, sys, time
rows = [json.loads(line) for line in open("datasets/sums.jsonl")]
print("waiting for the test", flush=True)
while not os.path.exists("datasets/go"): time.sleep(0.05)
try:
    open("datasets/sums.jsonl", "a")
except OSError:
    data = [{{"instruction": row["question"], "output": row["answer"]}} for row in rows]
    json.dump(data, open("data.json", "w"))
```
{SETTINGS}"""

ASKING = f"""```python
import json, os, sys, urllib.error, urllib.request
def ask(model, text):
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({{"model": model, "messages": [{{"role": "user", "content": text}}]}}).encode(),
        {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
(strong,), (weak,) = (json.loads(os.environ[f"{{name}}_MODEL_POOL"]) for name in ("STRONG", "WEAK"))
seen = [str(dict(os.environ))]
for url in ("http://127.0.0.1:9/", "http://example.org/"):
    try: seen.append("reached " + urllib.request.urlopen(url).read().decode())
    except urllib.error.HTTPError as error: seen.append(f"refused with {{error.code}}")
rows = [json.loads(line) for line in open("datasets/sums.jsonl")]
rows = rows[:3] if "--debug" in sys.argv else rows
data = [
    {{"instruction": ask(weak, "Reword: " + row["question"]), "output": row["answer"]}}
    for row in rows
]
data[0]["input"] = "; ".join(seen)
json.dump(data, open("data.json", "w"))
```
{SETTINGS}"""
ENDLESS = f"""```python
import json, os, time, urllib.error, urllib.request
while True:
    body = {{"model": "big", "messages": [{{"role": "user", "content": "Reword: again"}}]}}
    headers = {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try: urllib.request.urlopen(request).read()
    except urllib.error.HTTPError as error: time.sleep(0.1)
```
{SETTINGS}"""
PUBLISHED = f"""```python
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI

client = OpenAI()
MODELS = json.loads(os.environ["WEAK_MODEL_POOL"]) + json.loads(os.environ["STRONG_MODEL_POOL"])


def rewrite(number, row):
    answer = client.chat.completions.create(
        model=MODELS[number % len(MODELS)],
        messages=[{{"role": "user", "content": "Reword: " + row["question"]}}],
        temperature=0.7,
        max_tokens=40,
        response_format={{"type": "text"}},
    )
    return {{
        "instruction": answer.choices[0].message.content,
        "input": f"{{answer.usage.prompt_tokens}} tokens",
        "output": row["answer"],
    }}


with open("datasets/sums.jsonl") as file:
    rows = [json.loads(line) for line in file]
if "--debug" in sys.argv:
    rows = rows[:5]
with ThreadPoolExecutor(max_workers=4) as pool:
    data = list(pool.map(rewrite, range(len(rows)), rows))
with open("data.json", "w") as file:
    json.dump(data, file)
```
{SETTINGS}"""
SECRET = "the-key-of-the-endpoint"


@dataclass(frozen=True)
class Scripted:
    """Campaigns with a sandbox, and the folder of their data sets."""

    campaigns: Campaigns
    data: Path
    scripts: ScriptClient


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    with scripted_campaigns(tmp_path) as scripted:
        yield scripted


@contextlib.contextmanager
def scripted_campaigns(root: Path) -> Iterator[Scripted]:
    """Campaigns with a sandbox, but for their worker."""
    data = root / "data"
    with contextlib.ExitStack() as stack:
        campaigns = stack.enter_context(running_campaigns(root))
        folder = root / "sandbox"
        folder.mkdir()
        port = free_port()
        sandbox = stack.enter_context(
            running_sandbox(
                folder,
                **SCRIPT_SETTINGS,
                TEMPER_SANDBOX_SCRIPT_FOLDERS=json.dumps({"campaigns": str(data)}),
                TEMPER_SANDBOX_SCRIPT_NETWORK=f"127.0.0.1:{port}",
            )
        )
        campaigns.settings.update(
            TEMPER_SANDBOX_URL=sandbox.url,
            TEMPER_CAMPAIGN_SCRIPT_KEY=KEY,
            TEMPER_CAMPAIGN_SCRIPT_DATA=str(data),
            TEMPER_CAMPAIGN_PROXY_PORT=str(port),
            TEMPER_ENDPOINT_KEYS=json.dumps({campaigns.llm.origin: SECRET}),
        )
        yield Scripted(campaigns, data, ScriptClient(sandbox))


@pytest.mark.drill
def test_a_script_goes_on_while_its_worker_is_killed(scripted: Scripted) -> None:
    campaigns = scripted.campaigns
    campaigns.llm.answer = Script({1: [WAITING, GOOD]})
    campaign = campaigns.create(loops=1)
    with campaigns.worker() as worker:
        script_id = _script_id(campaign, "debug-1.start.1")
        wait_for(lambda: scripted.scripts.is_known(script_id), "the start of the script")
        scripted.scripts.printed(script_id, "waiting for the test")
        worker.kill()
    (scripted.data / campaign / "go").touch()
    with campaigns.worker():
        campaigns.client.wait_until(campaign, "succeeded", 240)

    coding = campaigns.get(f"{campaign}/loops/1/coding")
    assert coding["output"]["attempts"] == 1, coding
    assert set(campaigns.llm.answered.values()) == {1}
    assert [loop["accepted"] for loop in campaigns.loops(campaign)] == [None, True]
    events = campaigns.get(f"{campaign}/events")
    assert "process_data.py was lost" not in json.dumps(events)


def _script_id(campaign: str, key: str) -> str:
    """The sandbox's id of a script of the first loop's coding."""
    place = request_key(campaign, (1, StepName.CODING), key, 0)
    return hashlib.sha256(place.encode()).hexdigest()


class Rewording:
    """What the LLM says to scripts, and otherwise as `Script` says."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def __call__(self, messages: Messages) -> str:
        asked = str(messages[-1]["content"])
        if asked.startswith("Reword: "):
            return f"Please: {asked.removeprefix('Reword: ')}"
        return self._script(messages)


def _script_llms(campaigns: Campaigns, calls: int) -> dict[str, Any]:
    endpoint = {"base_url": f"{campaigns.llm.origin}/v1", "max_tokens": 50}
    pools = {"strong": [{**endpoint, "model": "big"}], "weak": [{**endpoint, "model": "small"}]}
    return {"script_llms": {**pools, "calls": calls}}


@pytest.mark.drill
def test_a_script_asks_llms_through_the_proxy_alone(scripted: Scripted) -> None:
    campaigns = scripted.campaigns
    campaigns.llm.answer = Rewording(Script({1: [ASKING]}))
    with campaigns.worker():
        campaign = campaigns.create(_script_llms(campaigns, calls=100), loops=1)
        campaigns.client.wait_until(campaign, "succeeded", 240)

    coding = campaigns.get(f"{campaign}/loops/1/coding")
    assert coding["output"]["attempts"] == 1, coding
    folder = campaigns.folder / "home" / "jobs" / campaign / "loop-1"
    rows = json.loads((folder / "full.json").read_text())
    assert len(rows) == 30
    assert all(row["instruction"].startswith("Please: What is") for row in rows)
    seen = rows[0]["input"]
    assert "'STRONG_MODEL_POOL': '[\"big\"]'" in seen
    assert SECRET not in seen
    assert seen.endswith("refused with 403; refused with 403")
    calls_of_loop = 3 + 1 + 1  # proposal, code, verdict
    assert campaigns.get(campaign)["result"]["llm_tokens"] == 110 * (calls_of_loop + 3 + 30)
    cost = campaigns.get(f"{campaign}/report")["cost"]
    assert cost["by_scripts"]["calls"] == 33
    assert cost["prompt_tokens"] + cost["completion_tokens"] == 110 * (calls_of_loop + 33)


@pytest.mark.drill
def test_a_script_asks_with_the_openai_package(scripted: Scripted) -> None:
    campaigns = scripted.campaigns
    campaigns.llm.answer = Rewording(Script({1: [PUBLISHED]}))
    with campaigns.worker():
        campaign = campaigns.create(_script_llms(campaigns, calls=100), loops=1)
        campaigns.client.wait_until(campaign, "succeeded", 240)

    coding = campaigns.get(f"{campaign}/loops/1/coding")
    assert coding["output"]["attempts"] == 1, coding
    folder = campaigns.folder / "home" / "jobs" / campaign / "loop-1"
    rows = json.loads((folder / "full.json").read_text())
    assert len(rows) == 30
    assert all(row["instruction"].startswith("Please: What is") for row in rows)
    assert {row["input"] for row in rows} == {"100 tokens"}
    assert campaigns.get(f"{campaign}/report")["cost"]["by_scripts"]["calls"] == 5 + 30


@pytest.mark.drill
@pytest.mark.parametrize(("calls", "budget"), [(5, {}), (10_000, {"llm_tokens": 1500})])
def test_a_script_that_exceeds_its_budget_is_stopped_and_that_is_told(
    scripted: Scripted, calls: int, budget: dict[str, int]
) -> None:
    campaigns = scripted.campaigns
    campaigns.llm.answer = Rewording(Script({1: [ENDLESS, GOOD]}))
    limits = {"time_limits": {"debug_script": 3600}}
    with campaigns.worker():
        campaign = campaigns.create({**_script_llms(campaigns, calls), **limits}, loops=1, **budget)
        campaigns.client.wait_until(campaign, "succeeded", 240)

    events = json.dumps(campaigns.get(f"{campaign}/events"))
    limit = "llm_tokens" if budget else "calls"
    assert f"was stopped: with its calls of LLMs the limit of {limit} was reached" in events
    assert not scripted.scripts.is_known(_script_id(campaign, "debug-1.start.1"))
    result = campaigns.get(campaign)["result"]
    if budget:
        assert result["ended_by"] == "llm_tokens"
        assert 1500 <= result["llm_tokens"] <= 1610
    else:
        told = campaigns.get(f"{campaign}/loops/1/coding")["transcript"][1]
        assert "all scripts together have 5 calls" in told["messages"][0]["content"]
        assert result["best_loop"] == 1
