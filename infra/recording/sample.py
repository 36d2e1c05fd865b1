"""Sample runs for the recording: additions that a model learns to compute with a tool.

No model ran for them. Curves follow formulas and the policy is a script, so that they are small,
the same each time, and nobody's data.
"""

import json
import math
import random
import time
from typing import Any

import numpy as np
from sqlalchemy import update

from services.contracts.jobs import JobStatus
from services.contracts.rollouts.tool_runs import ProgramRun
from services.contracts.rollouts.trajectories import ToolCallRecord, Turn
from services.contracts.sandbox.programs import CommandResult, CommandStatus, RunStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow, ModelRow
from services.jobs.events import append_event
from services.jobs.store import get_job, move_job
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from tests.support.evaluation.evaluations import SucceededEvaluations
from tests.support.gateway import GatewayClient
from tests.support.trajectories import call, trajectory

STEPS = 40
SAMPLES = 4
PROMPTS = 3
RATES = (1e-3, 3e-3, 1e-2)
STEP_SECONDS = 9.0
ONLINE = {
    "type": "reinforcement",
    "reinforcement": {"rewards": [{"name": "sum", "reward": {"type": "exact"}}]},
}
PARTS = {
    **{"step_seconds": 9.0, "generate_seconds": 4.0, "tools_seconds": 1.2, "reward_seconds": 0.3},
    **{"update_seconds": 2.5, "sync_seconds": 0.4, "waiting_seconds": 0.6},
}


class SampleRuns:
    """Fills the home of a gateway without workers."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._random = random.Random(0)  # noqa: S311 - noise of curves
        self._database = Database(f"sqlite:///{client.home / 'temper.db'}")

    def fill(self) -> list[str]:
        """Make the runs, oldest first; return paths of pages that compare them."""
        swept = []
        for rate in RATES:
            method = supervised(rate)
            labels = {"sweep": "rates"}
            name = f"additions, learning rate {rate:g}"
            job = self._client.submit("sums", method=method, name=name, metadata=labels)
            swept.append(job)
            self._end(job, [self._supervised(step, rate) for step in range(1, STEPS + 1)])
        tuned = self._model(job)
        online = self._client.submit("tool", name="additions with a calculator", method=ONLINE)
        self._rollouts(online)
        self._end(online, [self._online(step) for step in range(1, STEPS + 1)])
        diverged = self._client.submit("high", name="a learning rate that is too high")
        self._end(diverged, [{"loss": 2.0 * 1.3**step} for step in range(6)], failed=True)
        evaluations = self._evaluations(tuned)
        self._database.close()
        return [
            f"/ui/jobs/{online}/trajectories",
            f"/ui/evaluations?compare={','.join(evaluations)}",
            f"/ui/compare?jobs={','.join(swept)}",
            "/ui/group?metadata=sweep=rates",
        ]

    def _supervised(self, step: int, rate: float) -> dict[str, float]:
        pace = 12.0 if rate == RATES[1] else 30.0
        loss = 0.05 + 2.6 * math.exp(-step / pace) + self._noise(0.05)
        accuracy = max(0.0, 1.0 - loss / 2.65)
        return {"loss": loss, "token_accuracy": accuracy, "grad_norm": 1.0 + self._noise(0.3)}

    def _online(self, step: int) -> dict[str, float]:
        skill = self._skill(step)
        return {
            "reward": skill + self._noise(0.04),
            "pass_rate": skill,
            "reward_std": math.sqrt(skill * (1 - skill)),
            "advantage_std": 0.9,
            "loss": self._noise(0.01),
            "entropy": 1.4 - 0.9 * skill,
            "kl": 0.02 * step / STEPS,
            "response_length": 60.0 - 25.0 * skill + self._noise(3.0),
            "grad_norm": 0.4 + self._noise(0.05),
            "tool_calls": 1.0,
            "cut_off_rate": 0.02,
            "importance_weight_mean": 1.0 + self._noise(1e-7),
            "version": float(step),
            **{name: value * (1 + self._noise(0.1)) for name, value in PARTS.items()},
        }

    def _skill(self, step: int) -> float:
        return 0.15 + 0.75 / (1 + math.exp(-(step - STEPS / 2.5) / 5))

    def _noise(self, width: float) -> float:
        return self._random.uniform(-width, width)

    def _end(self, job_id: str, metrics: list[dict[str, float]], *, failed: bool = False) -> None:
        begun = time.time() - STEP_SECONDS * len(metrics)
        rows = [
            {"step": step, "time": begun + STEP_SECONDS * step, **values}
            for step, values in enumerate(metrics, 1)
        ]
        folder = self._client.home / "jobs" / job_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        samples = [self._utilization(row["time"]) for row in rows]
        lines = "".join(f"{json.dumps(each)}\n" for each in samples)
        (folder / "utilization.jsonl").write_text(lines)
        with self._database.write() as session:
            for status in (JobStatus.QUEUED, JobStatus.RUNNING):
                move_job(session, get_job(session, job_id), status, f"now {status}")
            for row in rows:
                text = f"Step {row['step']}: loss={row['loss']:.4g}"
                values = {name: value for name, value in row.items() if name != "time"}
                append_event(session, job_id, text, type="metrics", data=values)
            last = JobStatus.FAILED if failed else JobStatus.SUCCEEDED
            result = None if failed else {"trained_tokens": 4096, "train_seconds": 360.0}
            move_job(session, get_job(session, job_id), last, f"now {last}", result=result)
            error = {"code": "loss_not_finite", "message": "the loss is NaN at step 7", "rows": []}
            error["hint"] = "lower the learning rate"
            times = {"started_at": begun, "error": error if failed else None}
            done = {"step": len(metrics), "total_steps": STEPS}
            session.execute(update(JobRow).where(JobRow.id == job_id).values(**times, **done))

    def _utilization(self, at: float) -> dict[str, Any]:
        card = {"id": "GPU-sample", "percent": 70 + int(self._noise(25)), "total": 80 << 30}
        return {
            "time": at,
            "cores": 1.4 + self._noise(0.4),
            "usable_cores": 2,
            "memory_bytes": 3 << 30,
            "busiest": "learner",
            "gpus": [card | {"used": 31 << 30}],
        }

    def _model(self, job_id: str) -> str:
        """Register what a training made."""
        name = "ft:base:sums::0123abcd"
        row = ModelRow(id=name, kind="full", job_id=job_id, job_path="output", created_at=1.0)
        row.lineage = {"job_id": job_id, "parent": "base", "library_versions": {}}
        with self._database.write() as session:
            session.add(row)
            result = {"fine_tuned_model": name, "trained_tokens": 4096, "train_seconds": 360.0}
            session.execute(update(JobRow).where(JobRow.id == job_id).values(result=result))
        return name

    def _rollouts(self, job_id: str) -> None:
        folder = self._client.home / "jobs" / job_id
        folder.mkdir(parents=True, exist_ok=True)
        with IndexedLog(folder) as log, UpdateLog(folder, keep=0) as updates:
            for step in range(STEPS - 3, STEPS + 1):
                rewards: dict[str, float] = {}
                for prompt in range(step * PROMPTS, (step + 1) * PROMPTS):
                    for sample in range(SAMPLES):
                        one = self._sample(prompt, sample, self._skill(step))
                        log.append(one)
                        rewards[one.id] = float(one.reward or 0.0)
                mean = sum(rewards.values()) / len(rewards)
                values = [
                    np.array([[-0.4, 0.7, one - mean]] * 2, np.float32) for one in rewards.values()
                ]
                updates.append(step, list(rewards), values)

    def _sample(self, prompt: int, sample: int, skill: float) -> Any:
        one, other = 10 + prompt * 7 % 90, 10 + prompt * 13 % 90
        is_right = self._random.random() < skill
        answer = str(one + other) if is_right else str(one + other + 1)
        made = trajectory(
            prompt,
            sample,
            tokens=2,
            messages=[{"role": "user", "content": f"What is {one} + {other}?"}],
            gold=[str(one + other)],
            reward=float(is_right),
            reward_components={"sum": float(is_right)},
        )
        said = f"I compute it. The answer is {answer}."
        turn = Turn(
            text=said,
            token_start=0,
            token_count=2,
            finish_reason="stop",
            calls=[self._calculation(one, other, answer)],
        )
        return made.model_copy(update={"turns": [turn]})

    @staticmethod
    def _calculation(one: int, other: int, answer: str) -> ToolCallRecord:
        code = f"print({one} + {other})"
        done = CommandResult(
            status=CommandStatus.FINISHED, execution_time=0.02, return_code=0, stdout=f"{answer}\n"
        )
        run = ProgramRun(language="python", code=code, status=RunStatus.SUCCESS, run_result=done)
        return call("python", arguments={"code": code}, reply=answer, shown=answer, run=run)

    def _evaluations(self, tuned: str) -> list[str]:
        rows = "".join(
            f'{{"prompt": "{each}+{each}=", "gold": "{2 * each}"}}\n' for each in range(40)
        )
        sent = {"file": ("questions.jsonl", rows)}
        uploaded = self._client.http.post("/v1/files", data={"purpose": "evals"}, files=sent)
        made = SucceededEvaluations(
            self._client.http, self._database, self._client.home, uploaded.json()["id"]
        )
        return [
            made.evaluation("0010" * 10, name="base on 40 questions"),
            made.evaluation("0111" * 10, model=tuned, name="tuned on 40 questions"),
        ]


def supervised(rate: float) -> dict[str, Any]:
    """A supervised method with a learning rate."""
    return {"type": "supervised", "supervised": {"hyperparameters": {"learning_rate": rate}}}
