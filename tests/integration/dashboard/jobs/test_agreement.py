"""Durations, time left and costs on the pages are those of the REST API."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import update

from services.core.db.engine import Database
from services.core.db.tables import AttemptRow, JobRow, UsageRow
from services.core.web.auth import ANONYMOUS
from services.jobs.job import NewJob
from services.jobs.queues import CAMPAIGN
from services.jobs.store import create_job
from tests.support.gateway import GatewayClient

PAUSED_SECONDS = 5_000.0
RAN_SECONDS = 3_900.0
CAMPAIGN_ID = "campaign-agreement"
RESULT = {
    **{"ended_by": "loops", "best_loop": 0, "best_model": "base"},
    **{"llm_tokens": 12_345, "cost": 0.75},
}

pytestmark = pytest.mark.drill


def change(gateway: GatewayClient, job_id: str, **values: Any) -> None:
    """Change a job as its worker would, an hour and five minutes into its only attempt."""
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    with database.write() as session:
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**values))
        ran = {"started_at": 1000.0, "ended_at": 1000.0 + RAN_SECONDS}
        session.execute(update(AttemptRow).where(AttemptRow.job_id == job_id).values(**ran))
    database.close()


def test_duration_and_time_left_of_a_job(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    ends = {"started_at": 1000.0, "finished_at": 1000.0 + RAN_SECONDS + PAUSED_SECONDS}
    change(gateway, job_id, **ends)
    assert gateway.job(job_id)["run_seconds"] == RAN_SECONDS

    page.goto(str(gateway.http.base_url.join(f"/ui/jobs/{job_id}")))
    summary = page.locator(".state")
    expect(summary).to_contain_text("Duration1h 05m")
    page.goto(str(gateway.http.base_url.join(f"/ui?text={job_id}")))
    expect(page.get_by_role("row").filter(has_text=job_id)).to_contain_text("1h 05m")

    change(gateway, job_id, status="paused", finished_at=None)
    expect(page.get_by_role("row").filter(has_text=job_id)).to_contain_text("paused")
    expect(page.get_by_role("row").filter(has_text=job_id)).to_contain_text("1h 05m")

    half = {
        "step": 3,
        "total_steps": 10,
        "eta_seconds": 312.0,
        "lease_expires_at": time.time() + 600,
    }
    change(gateway, job_id, status="running", finished_at=None, **half)
    progress = gateway.job(job_id)["progress"]
    assert (progress["percent"], progress["eta_seconds"]) == (30.0, 312.0)
    expect(page.get_by_role("row").filter(has_text=job_id)).to_contain_text("30 %, 5m 12s left")
    change(gateway, job_id, status="cancelled", finished_at=2000.0, lease_expires_at=None)


def test_tokens_and_cost_of_a_campaign(page: Page, gateway: GatewayClient) -> None:
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    request = {
        **{"base_model": "base", "scenario": "Add two numbers.", "file": "file-1"},
        "datasets": [{"name": "sums", "file": "file-2"}],
        "llm": {"base_url": "http://127.0.0.1:4000/v1", "model": "strong"},
    }
    with database.write() as session:
        new = NewJob(CAMPAIGN_ID, "campaign", CAMPAIGN.work, CAMPAIGN.validation, request)
        create_job(session, new)
        ended = {"status": "succeeded", "finished_at": 1.0, "result": RESULT}
        session.execute(update(JobRow).where(JobRow.id == CAMPAIGN_ID).values(**ended))
    database.close()
    told = gateway.http.get(f"/v1/campaigns/{CAMPAIGN_ID}").json()["result"]
    assert (told["llm_tokens"], told["cost"]) == (12_345, 0.75)

    page.goto(str(gateway.http.base_url.join(f"/ui/campaigns/{CAMPAIGN_ID}")))
    expect(page.get_by_text("12,345 tokens, cost 0.75")).to_be_visible()


def test_usage_of_served_models(page: Page, gateway: GatewayClient) -> None:
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    today = time.strftime("%Y-%m-%d", time.gmtime())
    yesterday = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400))
    with database.write() as session:
        for day, requests in ((today, 2), (yesterday, 3)):
            counts = {"prompt_tokens": 1000 * requests, "completion_tokens": 7 * requests}
            row = UsageRow(
                principal=ANONYMOUS, day=day, model="served", requests=requests, **counts
            )
            session.add(row)
    database.close()
    told = gateway.http.get("/v1/usage?days=30").json()["data"]
    assert sum(one["prompt_tokens"] for one in told if one["model"] == "served") == 5000

    page.goto(str(gateway.http.base_url.join("/ui/models")))
    page.get_by_role("link", name="Usage of served models").click()
    totals = page.get_by_role("region", name=re.compile("^By model"))
    cells = totals.get_by_role("row").filter(has_text="served").get_by_role("cell")
    expect(cells).to_have_text(["served", "5", "5,000", "35", "5,035"])
    page.get_by_label("Time").select_option("1")
    expect(cells).to_have_text(["served", "2", "2,000", "14", "2,014"])
    expect(page).to_have_url(re.compile("days=1$"))
