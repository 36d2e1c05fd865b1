"""A home with content for every view of the dashboard and hostile text in every field: markup, a
right-to-left override, and replies of 5 MB."""

import json
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import numpy as np
from sqlalchemy import update

from services.contracts.evaluation.results import SampleResult
from services.contracts.rollouts.trajectories import MalformedCall, Turn
from services.core.db.engine import Database
from services.core.db.tables import (
    AlertRow,
    CampaignEffectRow,
    CampaignStepRow,
    FileRow,
    JobRow,
    ModelRow,
    UsageRow,
    WorkerRow,
)
from services.core.web.auth import hash_key
from services.jobs.events import append_event
from services.jobs.job import NewJob
from services.jobs.queues import CAMPAIGN
from services.jobs.store import create_job
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from tests.support.chat_templates.families import FAMILIES
from tests.support.evaluation.evaluation_view import metrics_of
from tests.support.gateway import GatewayClient
from tests.support.models.worded_tokenizer import write_worded_tokenizer
from tests.support.trajectories import call, trajectory

BEGIN, END = "\u2991", "\u2992"
HOSTILE = f"{BEGIN}</pre></td><img src=x onerror=\"document.title='broken'\">\u202eabc{END}"
"""Executable markup and a right-to-left override, between two marks."""

SCRIPT = "<script>document.title='broken'</script>"
LONG = (f"{SCRIPT} reply \u202e" * 200_000)[:5_000_000]
"""A tool reply of 5 MB."""

SHOWN_MODEL = "shown"
CAMPAIGN_ID = "campaign-0123456789abcdef01234567"
STEPS = 12
FAR = 1e12


_SCORE = {"precision": 1.0, "recall": 0.5, "f1": 2 / 3}
_CALLS = {
    "entries": [{"name": HOSTILE, **_SCORE, "label_count": 2, "pred_count": 1, "hit_count": 1}],
    **{"left_out": 1, "micro_avg": _SCORE, "macro_avg": _SCORE},
}
CALL_SCORES = {
    **{"tools": _CALLS, "parameters": _CALLS},
    **{"single": {"hits": 1, "total": 2}, "multi": {"hits": 0, "total": 0}},
}
"""Scores for a tool with a hostile name."""


FOUND = {"id": "passage", "title": HOSTILE, "text": HOSTILE, "contents": "", "source": HOSTILE}
SEARCHED = {"index": HOSTILE, "mode": "bm25", "results": [[{"document": FOUND, "score": 0.5}]]}
"""A stub search response: the showcase gateway has no retrieval service."""


class Showcase:
    """Fills the home of a gateway without workers; ``views`` are the paths to visit."""

    def __init__(self, gateway: GatewayClient) -> None:
        self._gateway = gateway
        self._database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
        base = gateway.home / "models" / "base"
        base.mkdir(parents=True)
        write_worded_tokenizer(base, {1: SCRIPT, 2: "\n", 3: "=", 7: HOSTILE})
        self.failed = self._fine_tune("failed", method=REINFORCEMENT, error=ERROR)
        self._samples(self.failed)
        self._alerts()
        self._usage()
        self.running = self._fine_tune("running", phase=HOSTILE[-64:], step=3, total_steps=STEPS)
        self.queued = self._fine_tune("queued", queue_reason=HOSTILE)
        items = {"file": ("evals.jsonl", b'{"prompt": "1+1=", "gold": "2"}\n')}
        made = gateway.http.post("/v1/files", files=items, data={"purpose": "evals"})
        self._items = str(made.json()["id"])
        self.evaluations = [self._evaluation("0110"), self._evaluation("1111")]
        self.rollout = self._rollout()
        self.file, self.check = self._data()
        self._campaign()
        self._machines()
        self._database.close()

    @property
    def ids(self) -> list[str]:
        """The ids of all jobs and files, which have names."""
        return [
            str(each["id"])
            for kind in ("jobs", "files")
            for each in self._gateway.http.get(f"/v1/{kind}?limit=100").json()["data"]
        ]

    @property
    def views(self) -> dict[str, str]:
        """A path for each view, and a selector that is visible once it is loaded."""
        jobs, trajectories = "/ui/jobs", f"/ui/jobs/{self.rollout}/trajectories"
        tuned = (self.failed, self.running, self.queued)
        return {
            "/ui": f"a[href='{jobs}/{self.failed}']",
            **{f"{jobs}/{each}": "canvas, a[download]" for each in tuned},
            f"{jobs}/{self.evaluations[0]}": "a[download]",
            f"{jobs}/{self.rollout}": "a[download]",
            f"{jobs}/{CAMPAIGN_ID}": f"a[href='/ui/campaigns/{CAMPAIGN_ID}']",
            f"{jobs}/{self.failed}/clone": "textarea",
            f"{jobs}/{self.failed}/sweep": "form input",
            "/ui/group?metadata=team=blue": "td",
            f"{jobs}/{self.evaluations[0]}/results": "td",
            trajectories: "td",
            f"/ui/passage?id=passage&query={quote(HOSTILE)}": "article h3",
            f"{trajectories}/traj-0-0?beside=traj-0-1": "[role=option]",
            **{
                f"{trajectories}/traj-0-0?color={each}": "[role=option]"
                for each in ("log_prob", "entropy", "mismatch", "advantage", "policy_version")
            },
            f"/ui/compare?jobs={self.failed},{self.running}": "canvas",
            f"/ui/evaluations?compare={','.join(self.evaluations)}": "[aria-label^=Paired] td",
            "/ui/campaigns": "td",
            f"/ui/campaigns/{CAMPAIGN_ID}": "td",
            f"/ui/campaigns/{CAMPAIGN_ID}/loops/1": "h2",
            "/ui/data": "td",
            f"/ui/data/{self.file}?check={self.check}": "article pre",
            f"/ui/data/{self.file}?show=training&model={SHOWN_MODEL}": ".learned",
            "/ui/models": "td",
            f"/ui/model?id={SHOWN_MODEL}": "dd",
            f"/ui/lineage?model={quote(HOSTILE, safe='')}": "td",
            "/ui/chat?model=base&other=other": "form",
            f"/ui/start/evaluation?file={quote(HOSTILE)}": "form details",
            "/ui/start/fine-tune": "form details",
            "/ui/start/training": "form details[open]",
            "/ui/start/batch": "form details",
            "/ui/alerts?resolved=true": "td",
            "/ui/search?text=show": "td",
            "/ui/usage": "td",
            "/ui/workers": "td",
            "/ui/nothing": "h1",
        }

    def _change(self, job_id: str, status: str, **values: Any) -> None:
        begun = {} if status == "queued" else {"started_at": time.time() - 60}
        now = {"created_at": time.time() - 90, **begun}
        change = update(JobRow).where(JobRow.id == job_id)
        with self._database.write() as session:
            session.execute(change.values(status=status, lease_expires_at=FAR, **now, **values))

    def _fine_tune(self, status: str, method: dict[str, Any] | None = None, **values: Any) -> str:
        metadata = {HOSTILE[:64]: HOSTILE, "team": "blue"}
        asked: dict[str, Any] = {} if method is None else {"method": method}
        job_id = self._gateway.submit(f"show-{status}", metadata=metadata, **asked)
        metrics = [
            {"step": step, "loss": 1 / step, HOSTILE: step, **STEP_TIMES, **LOSSES}
            for step in range(1, STEPS)
        ]
        with self._database.write() as session:
            for each in metrics:
                append_event(session, job_id, f"Step {each['step']}", type="metrics", data=each)
            append_event(session, job_id, HOSTILE, level="warn")
            append_event(session, job_id, LONG, level="error")
        folder = self._gateway.home / "jobs" / job_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in metrics))
        (folder / HOSTILE.replace("/", "|")).write_text(HOSTILE)
        (folder / "log.txt").write_text(f"{HOSTILE}\n{HOSTILE}\n")
        self._change(job_id, status, **values)
        return job_id

    def _evaluation(self, marks: str) -> str:
        """An evaluation with one row per character: 1 is correct, 0 is wrong."""
        body = {"model": "base", "file": self._items, "metadata": {"note": HOSTILE}}
        answer = self._gateway.http.post("/v1/evaluations", json=body)
        assert answer.status_code == 200, answer.text
        job_id = str(answer.json()["id"])
        rows = [
            SampleResult(
                id="",
                index=index,
                tags=[HOSTILE],
                gold=[HOSTILE, "2"],
                answer=[HOSTILE, LONG][index % 2],
                extracted=HOSTILE,
                correct=mark == "1",
                score=float(mark),
                finish_reason="stop",
            )
            for index, mark in enumerate(marks)
        ]
        failed = {"gold": ["2"], "answer": None, "correct": None, "error": HOSTILE}
        rows.append(SampleResult(id="", index=len(rows), **failed))
        folder = self._gateway.home / "jobs" / job_id
        folder.mkdir(parents=True)
        lines = [row.model_dump_json(exclude={"id"}) + "\n" for row in rows]
        (folder / "results.jsonl").write_text("".join(lines))
        metrics = metrics_of(marks.count("1") / len(rows)) | {"tool_calls": CALL_SCORES}
        result = {"metrics": metrics}
        self._change(job_id, "succeeded", finished_at=time.time(), result=result)
        return job_id

    def _rollout(self) -> str:
        body = {"model": "base", "prompts": [{"question": HOSTILE, "gold": HOSTILE}]}
        answer = self._gateway.http.post("/v1/rollouts", json=body)
        assert answer.status_code == 200, answer.text
        job_id = str(answer.json()["id"])
        folder = self._gateway.home / "jobs" / job_id
        folder.mkdir(parents=True, exist_ok=True)
        said = [{"role": "system", "content": HOSTILE}, {"role": "user", "content": HOSTILE}]
        calls = [
            call(HOSTILE, arguments={HOSTILE: HOSTILE}, shown=HOSTILE, run=PROGRAM),
            call(shown=LONG, run=SEARCH),
        ]
        malformed = [MalformedCall(text=HOSTILE, reason=HOSTILE)]
        turn = Turn(
            text=HOSTILE,
            token_start=0,
            token_count=2,
            finish_reason="stop",
            calls=calls,
            malformed=malformed,
        )
        common: dict[str, Any] = {"messages": said, "gold": [HOSTILE]}
        first = trajectory(0, 0, **common, reward=1.0, reward_components={HOSTILE: 1.0})
        second = trajectory(0, 1, **common, reward=-1.0, error=HOSTILE)
        with IndexedLog(folder) as log:
            log.append(first.model_copy(update={"turns": [turn]}))
            log.append(second.model_copy(update={"turns": [turn]}))
            log.append(trajectory(1, 0, **common, reward_error=HOSTILE))
        with UpdateLog(folder, keep=0) as updates:
            values = np.array([[-3.0, 4.0, -2.5], [-0.5, 1.0, 1.5]], np.float32)
            updates.append(1, [first.id], [values])
            updates.append(2, [second.id], None)
        for about in (None, first.id):
            self._note(job_id, about)
        self._change(job_id, "succeeded", finished_at=time.time())
        return job_id

    def _samples(self, job_id: str) -> None:
        """Samples of a training, enough for an audit of its reward."""
        with IndexedLog(self._gateway.home / "jobs" / job_id) as log:
            for prompt in range(40):
                log.append(trajectory(prompt, reward=prompt / 40, reward_components={HOSTILE: 1.0}))

    def _usage(self) -> None:
        """What the key of the gateway's client used."""
        key = self._gateway.http.headers["Authorization"].partition(" ")[2]
        counts = {"requests": 2, "prompt_tokens": 30, "completion_tokens": 12}
        today = datetime.now(UTC).date().isoformat()
        with self._database.write() as session:
            session.add(UsageRow(day=today, principal=hash_key(key), model=HOSTILE, **counts))

    def _alerts(self) -> None:
        """Alerts of a job and of the host, of which one is over."""
        now = time.time()
        raised: dict[str, Any] = {"message": HOSTILE, "raised_at": now - 90}
        lost: dict[str, Any] = {
            "rule": "failure_share",
            "value": 0.3,
            "bound": 0.1,
            "job_id": self.failed,
        }
        broken: dict[str, Any] = {"rule": "loss_not_finite", "value": None, "job_id": self.failed}
        disk: dict[str, Any] = {
            "rule": "disk_nearly_full",
            "value": 0.02,
            "bound": 0.05,
            "resolved_at": now,
        }
        with self._database.write() as session:
            for number, each in enumerate((lost, broken, disk)):
                session.add(AlertRow(id=f"alert-{number}", **raised, **each))

    def _note(self, job_id: str, about: str | None) -> None:
        body = {"text": HOSTILE, "trajectory_id": about}
        answer = self._gateway.http.post(f"/v1/jobs/{job_id}/notes", json=body)
        assert answer.status_code == 200, answer.text

    def _data(self) -> tuple[str, str]:
        """A file with a hostile name, rows and check errors, and a model to tokenize it."""
        folder = self._gateway.home / "models" / SHOWN_MODEL
        folder.mkdir(parents=True)
        FAMILIES["qwen3"].write(folder)
        (folder / "model.safetensors").touch()
        (folder / "config.json").write_text("{}")
        http = self._gateway.http
        made = http.post("/v1/models", json={"id": SHOWN_MODEL, "folder": SHOWN_MODEL})
        assert made.status_code == 200, made.text
        roles = ("user", "assistant")
        rows: list[Any] = [
            {"messages": [{"role": role, "content": said} for role in roles]}
            for said in (HOSTILE, LONG)
        ]
        content = "".join(json.dumps(each) + "\n" for each in [*rows, {HOSTILE: HOSTILE}])
        sent = {"file": ("rows.jsonl", content)}
        file = http.post("/v1/files", data={"purpose": "fine-tune"}, files=sent).json()["id"]
        check = http.post("/v1/checks", json={"training_file": file}).json()["id"]
        self._change(check, "failed", error=ERROR)
        with self._database.write() as session:
            renamed = update(FileRow).where(FileRow.id == file).values(filename=HOSTILE)
            session.execute(renamed)
        return str(file), str(check)

    def _campaign(self) -> None:
        with self._database.write() as session:
            request = {
                "base_model": "base",
                "scenario": HOSTILE,
                "file": "file-1",
                "datasets": [{"name": "sums", "file": "file-2"}],
                "llm": {"base_url": "http://127.0.0.1:4000/v1", "model": "m", "temperature": None},
            }
            queue = CAMPAIGN.work, CAMPAIGN.validation
            create_job(session, NewJob(CAMPAIGN_ID, "campaign", *queue, request))
        self._step(0, "base", _measured("base", 2))
        self._step(1, "direct_exp_gen", {"parent": 0, "hypothesis": HOSTILE})
        self._step(1, "running", {"measurement": _measured("ft:1", 5)})
        better = {"samples": 10, "difference": 0.3, "ci95": [0.1, 0.5], "improves": True}
        self._step(1, "feedback", {"accepted": True, "comparison": better, "reason": HOSTILE})
        self._step(2, "direct_exp_gen", {"parent": 1, "hypothesis": LONG})
        said = {"messages": [{"role": "user", "content": HOSTILE}], "answer": LONG}
        place = {"campaign_id": CAMPAIGN_ID, "loop": 1, "step": "direct_exp_gen", "created_at": 1.0}
        spent = {"prompt_tokens": 100, "completion_tokens": 10}
        with self._database.write() as session:
            session.add(CampaignEffectRow(**place, **spent, key="1", seq=0, response=said))
        self._change(CAMPAIGN_ID, "running")

    def _step(self, loop: int, name: str, output: dict[str, Any]) -> None:
        now = time.time()
        place = {"campaign_id": CAMPAIGN_ID, "loop": loop, "name": name}
        times = {"started_at": now, "finished_at": now}
        with self._database.write() as session:
            session.add(CampaignStepRow(**place, output=output, **times))

    def _machines(self) -> None:
        lineage = {
            "job_id": self.failed,
            "parent": HOSTILE,
            "files": {"training_file": {"file": HOSTILE, "sha256": HOSTILE}},
            "library_versions": {HOSTILE: HOSTILE},
        }
        now = time.time()
        with self._database.write() as session:
            model = {"id": HOSTILE, "kind": "adapter", "base": "base", "created_at": now}
            session.add(ModelRow(**model, job_id=self.failed, lineage=lineage))
            worker = {"id": HOSTILE, "host": HOSTILE, "queues": [HOSTILE], "gpus": [HOSTILE]}
            times = {"started_at": now, "heartbeat_at": FAR}
            session.add(WorkerRow(**worker, gpu_bytes=[1], cpu_slots=4, **times))


REINFORCEMENT = {
    "type": "reinforcement",
    "reinforcement": {
        "rewards": [{"name": "rule", "reward": {"type": "retool"}}],
        "hyperparameters": {"steps": 1},
    },
}
LOSSES = {
    **{"samples_left_out": 1, "infrastructure_failures": 3},
    **{"infrastructure_failures/reward:judge": 2, "infrastructure_failures/search": 1},
}
ERROR = {
    "code": "bad_data",
    "message": HOSTILE,
    "hint": HOSTILE,
    "rows": [{"row": 3, "message": HOSTILE}],
}
PROGRAM = {
    **{"type": "program", "language": HOSTILE, "code": HOSTILE, "status": "Failed"},
    "run_result": {"status": "Finished", "return_code": 1, "stdout": HOSTILE, "stderr": HOSTILE},
}
PASSAGE = {"id": HOSTILE, "score": 0.5, "title": HOSTILE, "text": HOSTILE}
SEARCH = {
    **{"type": "search", "index": HOSTILE, "topk": 3},
    "queries": [{"query": HOSTILE, "found": 2, "passages": [PASSAGE, PASSAGE]}] * 2,
}
STEP_TIMES = {
    **{"step_seconds": 10, "generate_seconds": 4, "tools_seconds": 1, "reward_seconds": 1},
    **{"update_seconds": 2, "sync_seconds": 1, "waiting_seconds": 1, "version": 1},
}


def _measured(model: str, right: int) -> dict[str, Any]:
    scores = {str(item): float(item < right) for item in range(10)}
    return {"model": model, "search": scores, "final": scores, "wrong": []}
