"""Sweeps and groups of jobs, saved views, and reports that stand alone."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.dashboard.accessibility import violations
from tests.support.gateway import GatewayClient

pytestmark = pytest.mark.drill

RATE = "method.supervised.hyperparameters.learning_rate"
SUPERVISED = {"type": "supervised", "supervised": {"hyperparameters": {"learning_rate": 1e-4}}}


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))
    expect(page.locator("main h1")).to_be_visible()


def test_a_sweep_is_started_and_its_best_job_comes_first(
    page: Page, gateway: GatewayClient
) -> None:
    job_id = gateway.submit("succeed", method=SUPERVISED)
    gateway.wait_until(job_id, "succeeded")
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    page.get_by_role("link", name="sweep").click()
    page.get_by_label("Name of the sweep").fill("rates")
    start = page.get_by_role("button", name="Start")
    expect(start).to_be_disabled()
    page.get_by_label("Field to vary").fill(RATE)
    page.get_by_label("Values, separated by commas").fill("1e-5, 0.001")
    page.get_by_role("button", name="Vary another field").click()
    page.get_by_label("Field to vary").last.fill("seed")
    page.get_by_label("Values, separated by commas").last.fill("1, 2")
    expect(page.get_by_text("4 jobs")).to_be_visible()
    assert violations(page) == []
    start.click()

    expect(page).to_have_url(re.compile(r"/ui/group\?metadata=sweep%3Drates$"))
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="succeeded")).to_have_count(4)
    made = gateway.http.get("/v1/jobs?metadata=sweep=rates").json()["data"]
    assert len({each["name"] for each in made}) == 4
    tried = {json.dumps(gateway.http.get(f"/v1/jobs/{each['id']}/request").json()) for each in made}
    assert sum("0.001" in each for each in tried) == 2
    best = made[1]["id"]
    steps = [{"step": step, "accuracy": 0.9, "loss": 0.1} for step in (1, 2)]
    metrics = "".join(f"{json.dumps(each)}\n" for each in steps)
    (gateway.home / "jobs" / best / "metrics.jsonl").write_text(metrics)
    page.get_by_label("Best by").fill("accuracy")
    page.get_by_label("Best by").press("Enter")
    expect(rows.first).to_contain_text(best)
    expect(rows.first).to_contain_text("best")
    expect(page.get_by_role("columnheader", name="learning_rate")).to_be_visible()
    expect(page).to_have_url(re.compile("by=accuracy"))
    assert violations(page) == []


def test_a_group_ranks_one_metric_in_its_direction(page: Page, gateway: GatewayClient) -> None:
    label = {"metadata": {"set": "mixed"}}
    methods = [
        {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 5}}},
        {"type": "dpo", "dpo": {"hyperparameters": {"n_epochs": 2}}},
        {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 4}}},
    ]
    jobs = [gateway.submit("succeed", method=each, **label) for each in methods]
    listed = gateway.http.get("/v1/jobs?metadata=set=mixed").json()
    score = {"name": "mean_score", "value": 2, "direction": "minimize", "recent": []}
    numbers = {
        jobs[0]: score | {"value": 9},
        jobs[1]: score,
        jobs[2]: {"name": "loss", "value": 0.1, "direction": "minimize", "recent": []},
    }
    for each in listed["data"]:
        each["main_number"] = numbers[each["id"]]
    page.route("**/v1/jobs?*", lambda route: route.fulfill(json=listed))
    open_view(page, gateway, "/ui/group?metadata=set=mixed")

    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text(jobs[1])
    expect(rows.first).to_contain_text("best")
    expect(page.get_by_text("best", exact=True)).to_have_count(1)
    expect(rows.last).to_contain_text(jobs[2])
    head = page.get_by_role("columnheader")
    expect(head.filter(has_text="mean_score (lower is better)")).to_be_visible()
    for method, told in (("supervised", ["", "5.0", "4.0"]), ("dpo", ["2.0", "", ""])):
        name = f"method.{method}.hyperparameters.n_epochs"
        place = head.all_inner_texts().index(name)
        cells = [row.locator("td").nth(place).inner_text() for row in rows.all()]
        assert cells == told
    numbers[jobs[1]]["not_finite"] = True
    page.reload()
    expect(rows.first).to_contain_text(jobs[0])
    expect(rows.filter(has_text=jobs[1])).to_contain_text("mean score not finite")


def test_a_view_is_saved_and_its_link_reproduces_it(page: Page, gateway: GatewayClient) -> None:
    open_view(page, gateway, "/ui?status=failed&kind=evaluation")
    menu = page.locator("#saved-views")
    full = [{"name": f"view {number}", "address": f"/ui?text={number}"} for number in range(50)]
    keep = "views => localStorage.setItem('temper-views', JSON.stringify(views))"
    page.evaluate(keep, full)
    menu.evaluate("menu => { menu.open = true; menu.querySelector('input').value = 'One more'; }")
    menu.get_by_role("button", name="Save this view").click()
    expect(menu.get_by_role("alert")).to_contain_text("No more than 50 views are kept")
    assert page.evaluate("JSON.parse(localStorage.getItem('temper-views'))") == full
    page.evaluate(keep, [])
    # Typed before the browser tells that the menu is open, which it does a moment later.
    menu.evaluate(
        "menu => { menu.open = true; menu.querySelector('input').value = 'My failures'; }"
    )
    menu.get_by_role("button", name="Save this view").click()
    expect(menu.get_by_role("link", name="My failures")).to_be_visible()
    assert violations(page) == []

    open_view(page, gateway, "/ui/workers")
    menu.locator("summary").click()
    menu.get_by_role("link", name="My failures").click()
    expect(page.get_by_label("Status")).to_have_value("failed")
    expect(page.get_by_label("Kind")).to_have_value("evaluation")
    menu.locator("summary").click()
    menu.get_by_role("button", name="Remove My failures").click()
    expect(menu.get_by_role("link")).to_have_count(0)


def test_a_report_stands_alone(page: Page, gateway: GatewayClient, tmp_path: Path) -> None:
    name = "A <b>run</b>"
    job_id = gateway.submit("succeed", name=name)
    gateway.wait_until(job_id, "succeeded")
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    expect(page.locator("canvas").first).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save report").click()
    file = tmp_path / "report.html"
    saved.value.save_as(file)

    assert "<script" not in file.read_text()
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    expect(page.locator("main")).to_contain_text("succeeded")
    expect(page.get_by_role("img", name="loss").locator("polyline")).to_have_count(1)
    assert page.locator("button, input, canvas, main b").count() == 0
