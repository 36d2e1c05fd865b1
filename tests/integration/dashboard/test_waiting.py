"""Wherever something waits in the dashboard, it says why and what to do."""

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.dashboard.showcase import SEARCHED
from tests.support.gateway import GatewayClient

pytestmark = pytest.mark.drill

HOLDER = {"id": "ftjob-9", "name": "sums", "kind": "fine_tuning", "eta_seconds": 312.0}
NO_WORKER = "no training worker is running: temper up starts the workers"
HALF = {
    **{"bytes": 1 << 30, "total_bytes": 1 << 31},
    **{"bytes_per_second": 10.0 * (1 << 20), "eta_seconds": 102.4},
}
SILENT = {"bytes_per_second": 0.0, "eta_seconds": None}
WAITS: dict[str, tuple[dict[str, Any], str]] = {
    "worker": ({"queue_reason": NO_WORKER}, f"{NO_WORKER} (see workers)"),
    "slot": (
        {"queue_reason": "waiting for 1 CPU slot; 0 free on vm", "waits_for": [HOLDER]},
        "waiting for 1 CPU slot; 0 free on vm, held by sums (5m 12s left) "
        "(it starts by itself; to start it now, pause or cancel what holds them)",
    ),
    "turn": (
        {"queue_reason": "waiting for its turn"},
        "waiting for its turn (jobs of a higher priority and older ones come first)",
    ),
    "retry": (
        {"queue_reason": "waiting to be retried"},
        "waiting to be retried (it starts again by itself; its events say what was lost)",
    ),
    "part": ({}, "waiting for succeed (it goes on once that"),
    "sandbox": (
        {"queue_reason": "waiting for the sandbox: ConnectError"},
        "(it asks again by itself; see which services do not run: workers)",
    ),
    "check": ({"status": "validating_files"}, "a worker checks its files first"),
    "engine": (
        {"status": "running", "phase": "loading_model"},
        "its model is loaded: about a minute on a processor, longer for a large one",
    ),
    "download": (
        {"status": "running", "phase": "downloading_model", "download": HALF},
        "1.0 GiB of 2.0 GiB, 10 MiB/s, 1m 42s left",
    ),
    "silent": (
        {"status": "running", "phase": "downloading_model", "download": HALF | SILENT},
        "1.0 GiB of 2.0 GiB, nothing comes at the moment",
    ),
    "paused": ({"status": "paused"}, "paused: resume it to go on from its last checkpoint"),
}


def test_every_wait_is_explained_with_what_to_do(page: Page, gateway: GatewayClient) -> None:
    whole = gateway.http.get(f"/v1/jobs/{gateway.submit('succeed')}").json()
    unset = {"status": "queued", "phase": None, "queue_reason": None, "error": None}
    waiting = {name: each for name, (each, _) in WAITS.items()}
    waiting["part"] = {"queue_reason": f"waiting for {whole['id']}"}
    jobs = [whole | unset | {"id": f"ftjob-{name}"} | each for name, each in waiting.items()]
    page.route("**/v1/jobs?limit=*", lambda route: route.fulfill(json=listing(jobs)))
    page.goto(str(gateway.http.base_url.join("/ui")))

    for name, (_, said) in WAITS.items():
        row = page.get_by_role("row").filter(has_text=f"ftjob-{name}")
        expect(row).to_contain_text(said)
    expect(page.get_by_role("link", name="sums")).to_have_attribute("href", "/ui/jobs/ftjob-9")


def test_a_form_says_that_no_worker_would_run_the_job(page: Page, gateway: GatewayClient) -> None:
    page.route("**/v1/workers", lambda route: route.fulfill(json=listing([])))
    page.goto(str(gateway.http.base_url.join("/ui/start/evaluation")))

    expect(page.get_by_text("No evaluation worker is running")).to_be_visible()


def test_a_passage_appears_once_its_index_is_built(
    page: Page, gateway: GatewayClient, expected_errors: list[str]
) -> None:
    expected_errors.append("503 (Service Unavailable)")
    error = {"message": "index 'wiki' is being built", "code": "index_being_built"}
    refused = {"status": 503, "json": {"error": error}}
    job = {"id": "index-1", "status": "running", "phase": None, "queue_reason": None}
    half = {"step": 1, "total_steps": 2, "percent": 50, "eta_seconds": None}
    building = [job | {"progress": half, "index": "wiki", "file": "file-1"}]

    def search(route: Route) -> None:
        route.fulfill(json=SEARCHED)

    page.route("**/v1/indexing/jobs?*", lambda route: route.fulfill(json=listing(building)))
    page.route("**/v1/search", search)
    page.route("**/v1/search", lambda route: route.fulfill(**refused), times=1)
    page.goto(str(gateway.http.base_url.join("/ui/passage?id=passage&query=q")))

    expect(page.get_by_role("status")).to_contain_text("index 'wiki' is being built")
    expect(page.get_by_role("link", name="its job")).to_have_attribute("href", "/ui/jobs/index-1")
    expect(page.locator("article h3")).to_be_visible()


def listing(rows: list[Any]) -> dict[str, Any]:
    return {"object": "list", "data": rows, "has_more": False}
