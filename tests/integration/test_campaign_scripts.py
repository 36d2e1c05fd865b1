"""Campaigns whose data scripts are scripts of a real sandbox."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.contracts.campaigns import StepName
from services.core.jobs.campaign_steps import request_key
from tests.integration.test_campaigns import GOOD, SETTINGS, Campaigns, Script, running_campaigns
from tests.support.sandbox import running_sandbox
from tests.support.sandbox_scripts import KEY, ScriptClient
from tests.support.sandbox_scripts import SETTINGS as SCRIPT_SETTINGS
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


@dataclass(frozen=True)
class Scripted:
    """Campaigns with a sandbox, and the folder of their data sets."""

    campaigns: Campaigns
    data: Path
    scripts: ScriptClient


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    data = tmp_path / "data"
    with contextlib.ExitStack() as stack:
        campaigns = stack.enter_context(running_campaigns(tmp_path))
        folder = tmp_path / "sandbox"
        folder.mkdir()
        sandbox = stack.enter_context(
            running_sandbox(
                folder,
                **SCRIPT_SETTINGS,
                TEMPER_SANDBOX_SCRIPT_FOLDERS=json.dumps({"campaigns": str(data)}),
            )
        )
        campaigns.settings.update(
            TEMPER_SANDBOX_URL=sandbox.url,
            TEMPER_CAMPAIGN_SCRIPT_KEY=KEY,
            TEMPER_CAMPAIGN_SCRIPT_DATA=str(data),
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
    assert "was lost" not in json.dumps(events)


def _script_id(campaign: str, key: str) -> str:
    """The sandbox's id of a script of the first loop's coding."""
    place = request_key(campaign, (1, StepName.CODING), key, 0)
    return hashlib.sha256(place.encode()).hexdigest()
