"""Which metrics raise alerts, and how alerts are raised and resolved."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from services.api.alerts.service import list_alerts, open_alerts
from services.api.alerts.signals import WINDOW, AlertBounds, JobSignals
from services.api.alerts.watch import AlertWatch
from services.contracts.alerts import Alert, AlertRule
from services.contracts.jobs import JobKind, JobStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow, WebhookDeliveryRow, WebhookRow
from services.jobs.events import append_event
from services.jobs.store import move_job
from services.jobs.worker import thinning
from services.jobs.worker.reports import MetricsReport, record_reports
from tests.unit.jobs.machine import claim, cpu_worker, queued_job

BOUNDS = AlertBounds(
    kl=1.0,
    mismatch=0.05,
    failure_share=0.1,
    reward_drop=0.5,
    wait_seconds=3600.0,
    disk_share=0.0,
)


def signals(
    steps: list[dict[str, Any]], kind: JobKind = JobKind.FINE_TUNING
) -> dict[AlertRule, str]:
    read = JobSignals(BOUNDS, kind)
    for step, values in enumerate(steps, 1):
        read.read({"step": step} | values)
    return {rule: finding.message for rule, finding in read.findings().items()}


def rewards(*values: float) -> list[dict[str, Any]]:
    return [{"reward": value, "reward_std": 0.1} for value in values]


HEALTHY: dict[str, list[dict[str, Any]]] = {
    "rising reward": rewards(*(step / 40 for step in range(40))),
    "a dip that keeps half of the gain": rewards(*[0.0] * 10, *[1.0] * 10, *[0.6] * 10),
    "too few steps": rewards(1.0, 0.0),
    "constant reward": rewards(*[0.5] * 30),
    "small divergences": [{"kl": 0.9, "sampler_kl": 0.01, "loss": 2.0}] * 30,
    "one large divergence": [*[{"kl": 0.1}] * 9, {"kl": 5.0}],
    "few lost samples": [{"samples_left_out": 1, "batch_samples": 63}] * 5,
    "a loss that is finite again": [{"loss": None}, {"loss": 1.0}],
    "nothing": [{}],
}
SICK: dict[AlertRule, list[list[dict[str, Any]]]] = {
    AlertRule.LOSS_NOT_FINITE: [[{"loss": 1.0}, {"loss": None}], [{"grad_norm": None}]],
    AlertRule.REWARD_COLLAPSE: [
        rewards(*[0.0] * 10, *[1.0] * 10, *[0.4] * 10),
        [{"reward": 0.5, "reward_std": 0.0}] * WINDOW,
    ],
    AlertRule.KL_HIGH: [[{"kl": 1.2}] * 3],
    AlertRule.SAMPLER_MISMATCH: [[{"sampler_kl": 0.06}]],
    AlertRule.FAILURE_SHARE: [[{"samples_left_out": 8, "batch_samples": 56}]],
}


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_metrics_raise_nothing(case: str) -> None:
    assert signals(HEALTHY[case]) == {}


@pytest.mark.parametrize(("rule", "steps"), [(r, s) for r in SICK for s in SICK[r]])
def test_each_rule_finds_its_fault_alone(rule: AlertRule, steps: list[dict[str, Any]]) -> None:
    assert list(signals(steps)) == [rule]


TOTALS: list[list[dict[str, Any]]] = [
    [{"step": 100 * n, "samples_left_out": n, "accuracy": 0.5} for n in range(1, 30)],
    [{"step": 50, "samples_left_out": 5}],
    rewards(*[0.0] * 10, *[1.0] * 10, *[0.4] * 10),  # of the first prompts, and then of others
]


@pytest.mark.parametrize("kind", [JobKind.EVALUATION, JobKind.ROLLOUT])
@pytest.mark.parametrize("steps", TOTALS)
def test_totals_of_few_losses_raise_nothing(kind: JobKind, steps: list[dict[str, Any]]) -> None:
    assert signals(steps, kind) == {}


@pytest.mark.parametrize("kind", [JobKind.EVALUATION, JobKind.ROLLOUT])
def test_totals_of_many_losses_raise_an_alert(kind: JobKind) -> None:
    steps = [{"step": 20, "samples_left_out": 0}, {"step": 60, "samples_left_out": 15}]
    message = "25.0% of the samples so far were lost to failed tools or services (bound 10.0%)"
    assert signals(steps, kind) == {AlertRule.FAILURE_SHARE: message}


def running_job(database: Database) -> str:
    queued_job(database)
    return claim(database, cpu_worker()).job.id


def report(database: Database, job_id: str, **values: float) -> None:
    with database.write() as session:
        append_event(session, job_id, "Step", type="metrics", data={"step": 1, **values})


def alerts(database: Database, *, resolved: bool = False) -> list[Alert]:
    with database.read() as session:
        return list_alerts(session, job_id=None, resolved=resolved, after=None, limit=100)[0]


@pytest.fixture
def watch(tmp_path: Path) -> AlertWatch:
    return AlertWatch(tmp_path, BOUNDS)


def test_an_alert_is_raised_once_announced_and_resolved(
    database: Database, watch: AlertWatch, tmp_path: Path
) -> None:
    with database.write() as session:
        every = ["alert.raised", "alert.resolved"]
        columns = {"url": "http://x", "format": "standard", "secret": "", "created_at": 0.0}
        session.add(WebhookRow(id="whk-1", events=every, **columns))
    job_id = running_job(database)
    report(database, job_id, loss=math.nan)

    for _ in range(2):
        watch.sweep(database)
        AlertWatch(tmp_path, BOUNDS).sweep(database)  # another gateway's

    [raised] = alerts(database)
    assert (raised.rule, raised.job_id, raised.value) == (AlertRule.LOSS_NOT_FINITE, job_id, None)
    report(database, job_id, loss=1.0)
    watch.sweep(database)
    assert alerts(database) == []
    assert [alert.status for alert in alerts(database, resolved=True)] == ["resolved"]
    with database.read() as session:
        told = session.scalars(select(WebhookDeliveryRow.event)).all()
    assert [event["type"] for event in told] == ["alert.raised", "alert.resolved"]


def test_the_end_of_a_job_resolves_its_alerts(database: Database, watch: AlertWatch) -> None:
    queued_job(database)
    held = claim(database, cpu_worker())
    report(database, held.job.id, kl=9.0)
    watch.sweep(database)
    [alert] = alerts(database)
    assert (alert.rule, alert.value, alert.bound) == (AlertRule.KL_HIGH, 9.0, 1.0)

    with database.write() as session:
        move_job(session, held.job, JobStatus.CANCELLED, "Cancelled")
    watch.sweep(database)

    assert alerts(database) == []


def test_a_job_that_waits_for_long_raises_an_alert_with_the_reason(
    database: Database, watch: AlertWatch
) -> None:
    job = queued_job(database)
    watch.sweep(database)
    assert alerts(database) == []

    with database.write() as session:
        waiting = {"updated_at": time.time() - 3700, "queue_reason": "waiting for 1 GPU"}
        session.execute(update(JobRow).where(JobRow.id == job.id).values(**waiting))
    watch.sweep(database)

    [alert] = alerts(database)
    assert alert.rule is AlertRule.JOB_WAITS
    assert alert.message == "the job has waited for 62 minutes: waiting for 1 GPU"


def test_a_campaign_that_waits_for_its_training_raises_no_alert(
    database: Database, watch: AlertWatch
) -> None:
    job = queued_job(database)
    with database.write() as session:
        late = {"updated_at": time.time() - 3700, "queue_reason": "waiting for ftjob-1"}
        campaign = {"kind": "campaign", "started_at": 1.0}
        session.execute(update(JobRow).where(JobRow.id == job.id).values(**late, **campaign))
    watch.sweep(database)

    assert alerts(database) == []


def test_a_nearly_full_disk_raises_an_alert(database: Database, tmp_path: Path) -> None:
    always = AlertBounds(1.0, 1.0, 1.0, 1.0, 1.0, disk_share=1.1)

    AlertWatch(tmp_path, always).sweep(database)

    [alert] = alerts(database)
    assert (alert.rule, alert.job_id) == (AlertRule.DISK_NEARLY_FULL, None)


def test_the_latest_metrics_of_a_very_long_job_raise_alerts(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(thinning, "MAX_EVENTS", 20)
    queued_job(database)
    held = claim(database, cpu_worker())
    losses = [1.0] * 100 + [None]
    reports = [
        MetricsReport(type="metrics", step=step, metrics={"loss": loss})
        for step, loss in enumerate(losses)
    ]
    for offset, each in enumerate(reports):
        with database.write() as session:
            record_reports(session, held, [each], offset)

    AlertWatch(tmp_path, BOUNDS).sweep(database)

    with database.read() as session:
        assert (held.job.id, AlertRule.LOSS_NOT_FINITE) in open_alerts(session)
