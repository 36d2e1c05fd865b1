"""Views that refresh while they are read, and recover when requests fail."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.gateway import GatewayClient


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


@pytest.mark.drill
def test_a_page_reconnects_after_an_outage(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("forever")
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    events = page.get_by_label("Events, newest last")
    expect(events).to_contain_text("Step 1:")

    page.context.set_offline(True)
    page.context.set_offline(False)

    latest = gateway.events(job_id)[-1]["data"] or {}
    later = latest.get("step", 0) + 200
    expect(events).to_contain_text(f"Step {later}:")
    gateway.cancel(job_id)


def test_an_incomplete_response_is_reported(page: Page, gateway: GatewayClient) -> None:
    page.route("**/v1/workers", lambda route: route.fulfill(body='{"data": ['))
    open_view(page, gateway, "/ui/workers")

    expect(page.get_by_role("alert")).to_have_text("the response was interrupted")


def test_a_page_whose_script_fails_to_load_says_so_and_recovers(
    page: Page, gateway: GatewayClient, expected_errors: list[str]
) -> None:
    expected_errors.append("net::ERR_FAILED")
    page.route("**/ui/scripts/*", lambda route: route.abort())
    open_view(page, gateway, "/ui")
    main = page.locator("main")
    expect(main).to_contain_text("The dashboard could not be loaded; trying again.")
    expect(main.get_by_role("link", name="Reload")).to_be_visible()

    page.unroute_all()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


def test_a_view_whose_requests_fail_recovers(
    page: Page, gateway: GatewayClient, expected_errors: list[str]
) -> None:
    expected_errors.append("net::ERR_FAILED")
    job_id = gateway.submit("succeed")
    page.route("**/v1/**", lambda route: route.abort())
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    expect(page.get_by_role("alert")).to_have_text("the gateway is not responding")

    page.unroute_all()
    expect(page.get_by_role("heading", name="succeed")).to_be_visible()


STANDING = """async () => {
    const chosen = document.activeElement;
    const changed = () => new Promise((resolve) => {
        const watching = { childList: true, characterData: true, attributes: true, subtree: true };
        const observer = new MutationObserver(() => { observer.disconnect(); resolve(); });
        observer.observe(document.querySelector("main"), watching);
    });
    for (let times = 0; times < 2; times += 1) {
        await changed();
        // All changes of a refresh are made in one task.
        await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
    return chosen !== document.body && chosen === document.activeElement;
}"""
"""Whether the focused element keeps the focus over two refreshes."""


HURRIED = """
    const wait = window.setTimeout;
    window.setTimeout = (work, delay) => wait(work, Math.min(delay, 200));
"""
"""Refreshes every view several times a second."""


def test_live_views_keep_the_focus(page: Page, gateway: GatewayClient) -> None:
    page.add_init_script(HURRIED)
    job_id = gateway.submit("forever", metadata={"group": "live"})
    gateway.wait_until(job_id, "running")
    stub_live_views(page)
    file_id = gateway.http.get(f"/v1/fine_tuning/jobs/{job_id}").json()["training_file"]
    controls = {
        "/ui": page.locator(f"td a[href='/ui/jobs/{job_id}']"),
        f"/ui/jobs/{job_id}": page.get_by_role("button", name="cancel"),
        "/ui/workers": page.get_by_role("region", name="1 workers"),
        "/ui/evaluations": page.get_by_role("checkbox", name="Compare evaljob-1"),
        "/ui/campaigns": page.get_by_role("link", name="campaign-1"),
        "/ui/campaigns/campaign-1": page.get_by_role("link", name="base model").last,
        "/ui/group?metadata=group=live": page.locator(f"td a[href='/ui/jobs/{job_id}']"),
        "/ui/alerts": page.get_by_role("link", name="ftjob-9"),
        f"/ui/data/{file_id}?check=checkjob-1": page.get_by_role("link", name="checkjob-1"),
    }
    lost = []
    for path, control in controls.items():
        open_view(page, gateway, path)
        control.focus()
        if not page.evaluate(STANDING):
            lost.append(path)
        assert page.locator("[aria-live] progress").count() == 0, path
        expect(page.locator("main .status.queued")).to_have_count(0)
    gateway.cancel(job_id)

    assert lost == []


@pytest.mark.drill
def test_a_press_during_a_refresh_is_a_click(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("forever")
    gateway.wait_until(job_id, "running")
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    page.get_by_role("button", name="cancel").hover()
    page.mouse.down()
    for _ in range(2):
        with page.expect_response(f"**/v1/jobs/{job_id}"):
            pass
    page.mouse.up()

    expect(page.locator(".status.cancelled")).to_be_visible()
    assert gateway.job(job_id)["status"] == "cancelled"


def stub_live_views(page: Page) -> None:
    """Answer the lists of a page with contents that differ at each refresh."""
    times = itertools.count(1)
    state: dict[str, Any] = {
        "created_at": 0,
        "started_at": 0,
        "finished_at": None,
        "error": None,
        "phase": None,
    }
    state |= {"status": "running", "queue_reason": None, "result": None, "base_model": "base"}

    def progress() -> dict[str, Any]:
        return {"step": next(times), "total_steps": 10_000, "percent": 1.5, "eta_seconds": 5.0}

    def evaluations() -> list[dict[str, Any]]:
        """A new one at each refresh, above a known one."""
        one = state | {"id": "evaljob-1", "model": "base", "status": "succeeded"}
        return [one | {"id": f"evaljob-{next(times) + 1}"}, one]

    campaign = state | {
        "id": "campaign-1",
        "object": "campaign",
        "scenario": "addition",
        "budget": {"loops": 5},
        "branches": 1,
        "acceptance": {"by": "mean", "above": 0},
        "seeds": {"most": 1},
    }

    def loops() -> list[dict[str, Any]]:
        number = next(times)
        base = {"loop": 0, "model": "base", "parent": None, "accepted": None, "failure": None}
        base |= {"comparison": None, "seeds": [], "search_score": number / 1000, "steps": []}
        base |= {"final_score": None, "hypothesis": None, "reason": None, "failure_message": None}
        return [base, base | {"loop": number, "parent": 0, "model": None}]

    def worker() -> dict[str, Any]:
        held = {"queues": ["training"], "gpus": [], "cpu_slots": next(times), "host": "host"}
        return {"id": "worker-1", "started_at": 0, "heartbeat_at": 0, **held}

    def alert() -> dict[str, Any]:
        told = {"rule": "failure_share", "status": "raised", "bound": 0.1, "message": "tools"}
        held = {"value": next(times) / 1000, "raised_at": 0, "resolved_at": None}
        return {"id": "alert-1", "job_id": "ftjob-9", **told, **held}

    answers: dict[str, Callable[[], Any]] = {
        "**/v1/alerts?*": lambda: {"data": [alert()], "has_more": False},
        "**/v1/workers": lambda: {"data": [worker()]},
        "**/v1/evaluations?*": lambda: {"data": evaluations()},
        "**/v1/campaigns?*": lambda: {"data": [campaign | {"progress": progress()}]},
        "**/v1/campaigns/campaign-1": lambda: campaign | {"progress": progress()},
        "**/v1/campaigns/campaign-1/loops": lambda: {"data": loops()},
        "**/v1/checks/checkjob-1": lambda: (
            state | {"id": "checkjob-1", "report": None, "progress": progress()}
        ),
    }
    for pattern, answer in answers.items():
        page.route(pattern, partial(fulfill, answer))


def fulfill(answer: Callable[[], Any], route: Route) -> None:
    route.fulfill(json=answer())
