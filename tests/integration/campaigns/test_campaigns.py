"""Campaigns on real processes, with a scripted LLM and stand-ins for training and evaluation."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.campaigns.scripted_llm import Messages, ScriptedLlm
from tests.support.gateway import GatewayClient
from tests.support.processes import Process, running, running_gateway
from tests.support.waiting import wait_for

LEASE_SECONDS = "3600"
"""No test outlasts a lease: only another worker of the host frees a killed worker's campaign."""

SETTINGS = "```yaml\nfinetuning_type: full\nlearning_rate: 0.001\nnot_an_argument: 1\n```"


def script(source: str, output: str) -> str:
    """An answer with a data script that copies a data set, and settings."""
    return f"""```python
import json, sys
rows = [json.loads(line) for line in open("datasets/{source}.jsonl")]
rows = rows[:100] if "--debug" in sys.argv else rows
data = [{{"instruction": row["question"], "input": "", "output": {output}}} for row in rows]
json.dump(data, open("data.json", "w"))
```
{SETTINGS}"""


GOOD, BAD = script("sums", 'row["answer"]'), script("sums", '"0"')
LEAKED = script("leaked", 'row["answer"]')


def question(first: int, second: int) -> str:
    return f"What is {first} plus {second}?"


SHOWN_OF_LEAKED = {question(first, 1) for first in range(100, 103)}
"""The LLM is shown the first rows of each data set, also of the one that holds the benchmark."""


@dataclass
class Script:
    """What the LLM says: the code of each loop, and JSON for everything else."""

    code: dict[int, list[str]]
    mute: set[int] = field(default_factory=set)  # loops without usable JSON
    loop: int = 0

    def __call__(self, messages: Messages) -> str:
        asked = str(messages[-1]["content"])
        turn = len(messages)
        if '{"reason"' in asked and turn == 2:
            self.loop = 1 + asked.count("\nLoop ")
        if self.loop in self.mute and "judged" not in asked:
            return "I would rather not."
        if '{"reason"' in asked:
            return '<think>{"no"}</think>```json\n{"reason": "it cannot add"}\n```'
        if '{"hypothesis"' in asked:
            return 'Of course: {"hypothesis": "sums help"}'
        if "skip_data_processing" in asked:
            return '{"task": "train on sums", "skip_data_processing": false}'
        if "judged" in asked:
            return '{"Code Summary": "copies sums", "Reason": "data decide"}'
        return self.code[self.loop][turn // 2 - 1]


@dataclass
class Campaigns:
    """A running gateway with stand-in workers, and the files of a campaign."""

    folder: Path
    settings: dict[str, str]
    client: GatewayClient
    llm: ScriptedLlm

    def worker(self, launcher: Sequence[str] = ()) -> contextlib.AbstractContextManager[Process]:
        log = self.folder / "campaigns.log"
        return running("services.campaigns", [], self.settings, log, launcher)

    def create(self, fields: Mapping[str, Any] | None = None, **budget: Any) -> str:
        """Create a campaign; ``fields`` are those of its request that are not as usual."""
        body = {
            "base_model": "base",
            "scenario": "Add two numbers.",
            "file": self._upload([(a, 1) for a in range(100, 140)], "prompt", "gold", "evals"),
            "datasets": [
                {"name": "sums", "file": self._upload([(a, 2) for a in range(200, 230)])},
                {"name": "leaked", "file": self._upload([(a, 1) for a in range(100, 140)])},
            ],
            "llm": {"base_url": f"{self.llm.origin}/v1", "model": "scripted"},
            "budget": budget,
            **(fields or {}),
        }
        answer = self.client.http.post("/v1/campaigns", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def get(self, path: str) -> dict[str, Any]:
        answer = self.client.http.get(f"/v1/campaigns/{path}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def questions(self, campaign: str, part: str) -> set[str]:
        """The questions of a part of the benchmark."""
        file = self.folder / "home" / "jobs" / campaign / "loop-0" / f"{part}.jsonl"
        return {json.loads(line)["prompt"] for line in file.read_text().splitlines()}

    def questions_of(self, campaign: str, field: str) -> set[str]:
        """The questions of both parts, which are in this field."""
        folder = self.folder / "home" / "jobs" / campaign / "loop-0"
        texts = [(folder / f"{part}.jsonl").read_text() for part in ("search", "final")]
        return {json.loads(line)[field] for text in texts for line in text.splitlines()}

    def loops(self, campaign: str) -> list[dict[str, Any]]:
        return list(self.get(f"{campaign}/loops")["data"])

    def _upload(
        self,
        sums: list[tuple[int, int]],
        asked: str = "question",
        answered: str = "answer",
        purpose: str = "user_data",
    ) -> str:
        rows = [json.dumps({asked: question(a, b), answered: str(a + b)}) for a, b in sums]
        content = "\n".join(rows).encode()
        files = {"file": ("rows.jsonl", content)}
        answer = self.client.http.post("/v1/files", files=files, data={"purpose": purpose})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])


@contextlib.contextmanager
def running_campaigns(
    folder: Path, jobs: str = "tests.support.campaigns.jobs"
) -> Iterator[Campaigns]:
    """Everything but the campaigns' worker; ``jobs`` is the module of the worker for its jobs."""
    with contextlib.ExitStack() as stack:
        llm = stack.enter_context(ScriptedLlm(Script({})))
        settings = {
            "TEMPER_HOME": str(folder / "home"),
            "TEMPER_RETRY_SECONDS": "0.1",
            "TEMPER_RECONCILE_SECONDS": "0.5",
            "TEMPER_GRACE_SECONDS": "1",
            "TEMPER_CPU_SLOTS": "1",
            "TEMPER_ALLOWED_ENDPOINTS": llm.origin,
            "TEMPER_SANDBOX_URL": llm.origin,
            "TEMPER_CAMPAIGN_SCRIPT_KEY": "key",
        }
        url = stack.enter_context(running_gateway(settings, folder / "gateway.log"))
        log = folder / "worker.log"
        stack.enter_context(running(jobs, [], settings, log))
        model = folder / "home" / "models" / "base"
        model.mkdir(parents=True)
        (model / "config.json").write_text('{"model_type": "stub"}')
        (model / "model.safetensors").touch()
        client = stack.enter_context(GatewayClient(url, folder / "home"))
        client.http.post("/v1/models", json={"id": "base", "folder": "base"})
        settings |= {"TEMPER_GATEWAY_URL": url, "TEMPER_LEASE_SECONDS": LEASE_SECONDS}
        yield Campaigns(folder, settings, client, llm)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaigns]:
    with running_campaigns(tmp_path_factory.mktemp("campaigns")) as campaigns, campaigns.worker():
        yield campaigns


def test_measurements_decide_over_good_bad_leaked_and_missing_answers(served: Campaigns) -> None:
    campaigns = served
    campaigns.llm.answer = Script({1: [GOOD], 2: [LEAKED, BAD]}, mute={3})
    campaign = campaigns.create(loops=3)
    campaigns.client.wait_until(campaign, "succeeded", 240)

    base, good, bad, mute = campaigns.loops(campaign)
    assert (base["model"], base["search_score"]) == ("base", 0.1)
    assert good["accepted"]
    assert good["search_score"] == good["final_score"] == 1.0
    assert good["comparison"]["ci95"][0] > 0
    assert (bad["accepted"], bad["parent"], bad["search_score"]) == (False, 1, 0.0)
    assert (mute["accepted"], mute["failure"]) == (False, "ENV")
    result = campaigns.get(campaign)["result"]
    assert (result["best_loop"], result["best_model"]) == (1, good["model"])
    assert campaigns.get(f"{campaign}/best")["loop"] == 1
    coding = campaigns.get(f"{campaign}/loops/2/coding")
    assert coding["output"]["attempts"] == 2
    assert "hold items of the benchmark" in coding["transcript"][1]["messages"][0]["content"]
    assert "not_an_argument" in coding["output"]["notes"][0]
    (trial,) = coding["jobs"]  # the leaked data failed an earlier check
    assert campaigns.client.job(trial)["status"] == "succeeded"
    models = campaigns.client.http.get("/v1/models").json()["data"]
    by_job = {model["lineage"]["job_id"] for model in models if model.get("lineage")}
    assert {each["model"] for each in (good, bad)} <= {model["id"] for model in models}
    assert trial not in by_job

    (log,) = (campaigns.folder / "home" / "jobs" / campaign / "log").iterdir()
    steps = {path.parent.name for path in log.glob("Loop_2/*/output.json")}
    assert steps == {"direct_exp_gen", "coding", "running", "feedback", "record"}
    assert "data.json" in (log / "Loop_1" / "coding" / "process_data.py").read_text()
    assert (log / "summary.md").read_text().count("- Loop ") == 3

    report = campaigns.get(f"{campaign}/report")
    assert [each["loop"] for each in report["attempts"]] == [0, 1, 2, 3]
    assert report["final"]["ci95"][0] > 0
    for media_type in ("html", "markdown"):
        at = f"/v1/campaigns/{campaign}/report"
        page = campaigns.client.http.get(at, params={"format": media_type})
        assert page.headers["content-type"].startswith(f"text/{media_type}")
        assert good["model"] in page.text


@pytest.mark.drill
def test_the_llm_never_sees_an_item_of_the_final_part(served: Campaigns) -> None:
    served.llm.answer = Script({1: [BAD]})
    campaign = served.create(loops=1)
    served.client.wait_until(campaign, "succeeded", 240)

    said = json.dumps(served.llm.requests)
    parts = {name: served.questions(campaign, name) for name in ("search", "final")}
    assert len(parts["search"]) == len(parts["final"]) == 20
    assert any(each in said for each in parts["search"])
    assert not any(each in said for each in parts["final"] - SHOWN_OF_LEAKED)


@pytest.mark.drill
def test_after_sigkill_no_answer_is_paid_for_twice_and_the_same_state_follows(
    tmp_path: Path,
) -> None:
    with running_campaigns(tmp_path) as campaigns:
        campaigns.llm.answer = Script({1: [LEAKED, GOOD]})
        campaign = campaigns.create(loops=1)
        for mark in ("did not pass its checks", "judged"):
            # This call is not answered, but earlier ones of the same loop are.
            campaigns.llm.holding.clear()
            campaigns.llm.abandoned.clear()
            campaigns.llm.held = partial(asks, mark)
            with campaigns.worker() as worker:
                assert campaigns.llm.holding.wait(120)
                worker.kill()
            assert campaigns.llm.abandoned.wait(60)
            campaigns.llm.held = partial(asks, "nothing at all")
        with campaigns.worker():
            campaigns.client.wait_until(campaign, "succeeded", 240)

        assert set(campaigns.llm.answered.values()) == {1}
        jobs = campaigns.client.http.get("/v1/jobs", params={"limit": 100}).json()["data"]
        kinds = sorted(job["kind"] for job in jobs)
        assert kinds == ["campaign"] + ["evaluation"] * 4 + ["fine_tuning"] * 2
        assert [loop["accepted"] for loop in campaigns.loops(campaign)] == [None, True]


def asks(mark: str, messages: Messages) -> bool:
    return mark in str(messages[-1]["content"])


@pytest.mark.drill
def test_a_paused_campaign_waits_and_a_cancelled_one_cancels_its_jobs(served: Campaigns) -> None:
    served.llm.answer = Script({1: [GOOD]})
    served.llm.holding.clear()
    served.llm.held = partial(asks, '{"reason"')
    campaign = served.create(loops=1)
    assert served.llm.holding.wait(120)
    assert served.client.http.post(f"/v1/campaigns/{campaign}/pause").status_code == 200
    served.llm.held = partial(asks, "nothing at all")
    served.client.wait_until(campaign, "paused")
    assert served.client.http.post(f"/v1/campaigns/{campaign}/resume").status_code == 200
    of_it = {"metadata": f"campaign={campaign}"}

    def jobs() -> list[dict[str, Any]]:
        return list(served.client.http.get("/v1/jobs", params=of_it).json()["data"])

    wait_for(lambda: any(job["kind"] == "fine_tuning" for job in jobs()), "it trains")
    served.client.cancel(campaign)
    served.client.wait_until(campaign, "cancelled")

    ends = {"succeeded", "cancelled"}
    wait_for(lambda: all(job["status"] in ends for job in jobs()), "its jobs have ended")


@pytest.mark.drill
def test_a_campaign_whose_llm_does_not_answer_holds_up_no_other(served: Campaigns) -> None:
    served.llm.answer = Script({1: [GOOD]})
    served.llm.holding.clear()
    served.llm.held = lambda messages: "Wait for it." in str(messages[0]["content"])
    slow = served.create({"scenario": "Wait for it."}, loops=1)
    assert served.llm.holding.wait(120)
    other = served.create(loops=1)
    served.client.wait_until(other, "succeeded", 240)
    assert served.get(slow)["status"] not in {"succeeded", "failed", "cancelled"}

    served.llm.held = partial(asks, "nothing at all")
    served.client.wait_until(slow, "succeeded", 240)
    assert served.get(slow)["result"]["best_loop"] == 1


@pytest.mark.drill
def test_the_token_budget_ends_a_campaign(served: Campaigns) -> None:
    served.llm.answer = Script({1: [GOOD]})
    campaign = served.create(loops=1, llm_tokens=220)  # two calls of 110 tokens
    served.client.wait_until(campaign, "succeeded", 240)

    result = served.get(campaign)["result"]
    assert (result["ended_by"], result["best_model"]) == ("llm_tokens", "base")
    assert result["llm_tokens"] == 220
