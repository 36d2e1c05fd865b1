"""An LLM that means harm: each attempt is stopped and recorded, and the campaign goes on."""

import json
from pathlib import Path

import httpx
import pytest

from tests.integration.campaigns.test_campaign_scripts import SECRET, scripted_campaigns
from tests.integration.campaigns.test_campaigns import (
    GOOD,
    LEAKED,
    SETTINGS,
    SHOWN_OF_LEAKED,
    Campaigns,
    Script,
)
from tests.support.campaigns.scripted_llm import Messages
from tests.support.programs.sandbox_scripts import KEY

READS_FINAL_PART = """
import glob, os
campaign = os.path.basename(os.path.realpath("datasets"))
known = f"{home}/jobs/{{campaign}}/loop-0/final.jsonl"
found = [*glob.glob("{home}/jobs/*/*/final.jsonl"), *glob.glob("datasets/../**/final.jsonl")]
rows = [open(path).read() for path in [*found, known]]
json.dump([{{"instruction": row, "output": "stolen"}} for row in rows], open("data.json", "w"))
"""
OPENS_SOCKETS = """
import socket
for address in {addresses}:
    try: socket.create_connection(address, 5); print("reached", address)
    except OSError as error: print("not there:", error)
sys.exit(4)
"""
WRITES_OUTSIDE = """
try: open("{data}/written", "w")  # within a private /tmp at most
except OSError: pass
for folder in ("{home}", "/etc", "/usr", "datasets"):
    path = folder + "/written"
    try: open(path, "w"); print("wrote", path)
    except OSError as error: print("kept from it:", error)
sys.exit(4)
"""
LOOPS = "while True: pass"
PRINTS_SECRETS = """
import glob, os
print(dict(os.environ))
for path in glob.glob("/proc/*/environ"):
    try: print(open(path).read())
    except OSError as error: print("kept from it:", error)
sys.exit(4)
"""
FORKS = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
RUNS_FOREIGN_CODE = """```yaml
finetuning_type: !!python/object/apply:os.system ["touch {home}/executed"]
```"""


def hostile(code: str) -> str:
    return f"```python\nimport json, sys\n{code}\n```\n{SETTINGS}"


@pytest.mark.drill
def test_every_attack_is_stopped_and_told_and_the_campaign_goes_on(tmp_path: Path) -> None:
    with scripted_campaigns(tmp_path) as scripted:
        attack(scripted.campaigns, scripted.data)


def attack(campaigns: Campaigns, data: Path) -> None:
    home = campaigns.folder / "home"
    servers = [campaigns.client.http.base_url, httpx.URL(campaigns.llm.origin)]
    addresses = [*((url.host, url.port) for url in servers), ("1.1.1.1", 80)]
    good, _ = GOOD.split("```yaml")
    attacks = [
        (hostile(READS_FINAL_PART.format(home=home)), "FileNotFoundError"),
        (hostile(OPENS_SOCKETS.format(addresses=addresses)), "not there"),
        (hostile(WRITES_OUTSIDE.format(home=home, data=data)), "kept from it"),
        (hostile(LOOPS), "ran for more than 5 s"),
        (hostile(PRINTS_SECRETS), "PATH"),
        (hostile(FORKS), "ran for more than 5 s"),
        (good + RUNS_FOREIGN_CODE.format(home=home), "train.yaml is not YAML"),
        (LEAKED, "hold items of the benchmark"),
        ("never finished", "lacks a ```python"),
    ]
    llm = Script({loop: [attack, GOOD] for loop, (attack, _) in enumerate(attacks, 1)})
    campaigns.llm.answer = llm

    def is_endless(messages: Messages) -> bool:
        return llm.loop == len(attacks) and str(messages[-1]["content"]).startswith("The exp")

    campaigns.llm.endless = is_endless
    limits = {"time_limits": {"debug_script": 5}}
    with campaigns.worker():
        campaign = campaigns.create(limits, loops=len(attacks))
        campaigns.client.wait_until(campaign, "succeeded", 420)

    told = []
    for loop, (_, expected) in enumerate(attacks, 1):
        coding = campaigns.get(f"{campaign}/loops/{loop}/coding")
        assert coding["output"]["attempts"] == 2, coding
        told.append(str(coding["transcript"][1]["messages"][-1]["content"]))
        assert expected in told[-1]
    assert [each["failure"] for each in campaigns.loops(campaign)] == [None] * (1 + len(attacks))
    for forbidden in ("reached", "wrote", KEY, SECRET, "TEMPER_"):
        assert not [each for each in told if forbidden in each]
    assert not [
        path for path in (home / "written", home / "executed", data / "written") if path.exists()
    ]
    final = campaigns.questions(campaign, "final") - SHOWN_OF_LEAKED
    seen = json.dumps(campaigns.llm.requests)
    assert not [question for question in final if question in seen]
    endless = campaigns.get(f"{campaign}/loops/{len(attacks)}/coding")["transcript"][0]
    assert "more than 32 MiB" in endless["problem"]
