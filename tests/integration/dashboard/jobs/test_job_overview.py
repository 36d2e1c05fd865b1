"""What a job's page and the list show first: names, main numbers, and the curves that decide."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.dashboard.accessibility import violations
from tests.support.gateway import GatewayClient

STEPS = 12
CHANGING = ["reward", "loss", "pass_rate", "entropy", "response_length", "reward_std"]
FOLDED = ["kl", "ratio_mean", "clip_fraction_high", "staleness", "update_seconds", "my_own"]
CONSTANT = {"grad_norm": 0.0, "importance_weight_mean": 1.0, "tool_calls": 0}
BOTTOM = 2000
"""Pixels; what matters is above."""


@pytest.fixture(scope="module")
def job(gateway: GatewayClient) -> str:
    """A job with the metrics of an online training, of which some never change."""
    job_id = gateway.submit("succeed", name="My <b>first</b> run", suffix="succeed")
    gateway.wait_until(job_id, "succeeded")
    rows: list[dict[str, Any]] = [
        {"step": step, **dict.fromkeys([*CHANGING, *FOLDED], step / 10), **CONSTANT}
        for step in range(1, STEPS + 1)
    ]
    path = gateway.home / "jobs" / job_id / "metrics.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return job_id


def open_job(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))
    expect(chart(page, "loss").locator("canvas")).to_be_visible()


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def names(page: Page) -> list[str | None]:
    return [each.get_attribute("data-name") for each in page.locator(".chart:visible").all()]


def test_a_jobs_page_begins_with_its_summary_which_stays_in_view(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_job(page, gateway, f"/ui/jobs/{job}")
    summary = page.get_by_role("region", name="Summary")
    expect(summary.get_by_role("heading")).to_contain_text("My <b>first</b> run")
    expect(summary).to_contain_text(job)
    expect(summary).to_contain_text("loss 0.2")
    expect(summary.get_by_role("link", name="clone")).to_be_visible()
    assert page.title() == "My <b>first</b> run · Temper"

    for name in CHANGING:
        box = chart(page, name).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < BOTTOM
    page.get_by_role("heading", name="Files").scroll_into_view_if_needed()
    expect(summary.get_by_text("succeeded")).to_be_in_viewport()


def test_the_curves_that_decide_come_first_and_the_rest_is_folded(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_job(page, gateway, f"/ui/jobs/{job}")
    assert names(page) == [
        *("reward", "pass_rate", "loss", "response_length", "reward_std", "entropy"),
    ]
    expect(chart(page, "reward")).to_contain_text("Mean reward of the samples. Usually rises.")
    flat = page.get_by_role("list", name="Metrics that do not change")
    expect(flat.get_by_role("listitem")).to_have_text(
        [f"{name}: {CONSTANT[name]:g} at all {STEPS} steps" for name in sorted(CONSTANT)]
    )
    page.get_by_text("policy (4 curves)").click()
    expect(chart(page, "kl").locator("canvas")).to_be_visible()
    expect(page.get_by_text("other (1 curve)")).to_be_visible()
    expect(page).to_have_url(re.compile("unfolded=policy$"))
    assert violations(page) == []

    page.reload()  # the link reproduces the view
    expect(chart(page, "kl").locator("canvas")).to_be_visible()
    page.get_by_label("Find curves").fill("KL")
    expect(page.locator(".chart:visible")).to_have_count(1)
    expect(page).to_have_url(re.compile("curves=kl"))


def test_a_plot_is_saved_as_a_table_and_as_pictures(
    page: Page, gateway: GatewayClient, job: str, tmp_path: Path
) -> None:
    open_job(page, gateway, f"/ui/jobs/{job}")
    chart(page, "loss").get_by_text("Save", exact=True).click()
    saved: dict[str, bytes] = {}
    for kind in ("CSV", "SVG", "PNG"):
        with page.expect_download() as found:
            page.get_by_role("button", name=f"Save loss as {kind}").click()
        assert found.value.suggested_filename == f"loss.{kind.lower()}"
        found.value.save_as(tmp_path / kind)
        saved[kind] = (tmp_path / kind).read_bytes()

    rows = saved["CSV"].decode().splitlines()
    assert (rows[0], rows[-1]) == ('"step","loss"', f"{STEPS},{STEPS / 10}")
    assert len(rows) == STEPS + 1
    assert saved["SVG"].count(b"<polyline") == 1
    assert saved["PNG"].startswith(b"\x89PNG")


def test_the_list_shows_names_subjects_and_main_numbers(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    page.goto(str(gateway.http.base_url.join("/ui?text=FIRST")))
    row = page.get_by_role("row").filter(has_text=job)

    expect(row.get_by_role("link", name="My <b>first</b> run")).to_be_visible()
    expect(row).to_contain_text("loss 0.2")
    expect(row).to_contain_text("supervisedbase")
    expect(row.locator(".sparkline polyline")).to_have_count(1)
    expect(row.get_by_role("button", name=f"Copy {job}")).to_be_visible()
    expect(row.locator(".status.doubtful")).to_have_count(0)

    listed = gateway.http.get("/v1/jobs", params={"text": "FIRST"}).json()
    listed["data"][0]["main_number"]["nothing_learned"] = True
    page.route("**/v1/jobs?*", lambda route: route.fulfill(json=listed))
    expect(row).to_contain_text("nothing learned")
    expect(row.locator(".status.succeeded.doubtful")).to_be_visible()


def test_a_search_finds_jobs_models_data_and_notes(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    made = gateway.http.get(f"/v1/fine_tuning/jobs/{job}").json()
    gateway.http.post(f"/v1/jobs/{job}/notes", json={"text": "Loss jumps at step 40"})
    page.goto(str(gateway.http.base_url.join("/ui/workers")))
    search = page.get_by_label("Search jobs, models, data and notes")
    file = made["training_file"]
    for text, found in (("FIRST", job), ("base", "base"), (file, "jsonl"), ("JUMPS", "step 40")):
        search.fill(text)
        search.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text(text)
        expect(page.get_by_role("row").filter(has_text=found).first).to_be_visible()
    search.fill("nowhere to be found")
    search.press("Enter")
    expect(page.locator("main .quiet")).to_have_text(
        ["No jobs.", "No models.", "No data.", "No notes."]
    )
