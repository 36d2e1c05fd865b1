"""Notes in a browser: written, seen again and deleted."""

import re

import pytest
from playwright.sync_api import Page, expect

from services.rollouts.log.log import IndexedLog
from tests.support.gateway import GatewayClient
from tests.support.trajectories import trajectory

HOSTILE = "<img src=x onerror=\"document.title='broken'\">\u202e"


@pytest.fixture(scope="module")
def job(gateway: GatewayClient) -> str:
    """A rollout job with two trajectories."""
    gateway.submit("succeed")  # registers the model
    body = {"model": "base", "prompts": [{"question": "1+1=", "gold": 2}]}
    job_id = str(gateway.http.post("/v1/rollouts", json=body).json()["id"])
    folder = gateway.home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        log.append(trajectory(0))
        log.append(trajectory(1))
    return job_id


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def test_a_note_on_a_trajectory_stays_until_it_is_deleted(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-1-0")
    page.get_by_label("New note").fill(HOSTILE)
    page.get_by_role("button", name="Add note").press("Enter")

    notes = page.get_by_role("region", name="Notes").get_by_role("listitem")
    expect(notes).to_have_count(1)
    expect(page.get_by_label("New note")).to_have_value("")
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories")
    expect(
        page.get_by_role("row").filter(has_text="Prompt 1, sample 0").get_by_role("cell").nth(5)
    ).to_have_text("1")
    open_view(page, gateway, f"/ui/jobs/{job}")
    expect(notes).to_contain_text("onerror")
    notes.get_by_role("link", name="trajectory 1-0").click()
    expect(page).to_have_url(re.compile("trajectories/traj-1-0$"))
    assert page.locator("main img").count() == 0

    notes.get_by_role("button", name="Delete").click()
    expect(notes).to_have_count(0)
    assert gateway.http.get(f"/v1/jobs/{job}/notes").json()["data"] == []


def test_a_note_without_text_is_not_sent(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}")
    page.get_by_label("New note").fill("   ")
    page.get_by_role("button", name="Add note").click()

    expect(page.get_by_text("A note cannot be empty.")).to_be_visible()
    assert gateway.http.get(f"/v1/jobs/{job}/notes").json()["data"] == []
