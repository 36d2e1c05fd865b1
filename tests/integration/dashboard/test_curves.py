"""Curves in a browser: their axis, and the shared zoom by pointer, keyboard and URL."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.gateway import GatewayClient

STEPS = 20
LEFT, RIGHT = 0.0, 1.0
HOSTILE = "<img src=x onerror=\"document.title='broken'\">\u202e"


def measured(gateway: GatewayClient, seconds: float, steps: int = STEPS, **values: float) -> str:
    """A job that reported a step every `seconds`, with constant `values` besides others."""
    job_id = gateway.submit("succeed")
    job: dict[str, Any] = gateway.wait_until(job_id, "succeeded")
    lines = [
        {"step": step, "time": job["started_at"] + step * seconds, "loss": 1 / step, HOSTILE: step}
        | values
        for step in range(1, steps + 1)
    ]
    path = gateway.home / "jobs" / job_id / "metrics.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return job_id


@pytest.fixture(scope="module")
def job(gateway: GatewayClient) -> str:
    return measured(gateway, 60)


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))
    expect(chart(page, "loss").locator("canvas")).to_be_visible()


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name)


def legend_at(one: Locator, share: float) -> Locator:
    """The axis value in a chart's legend under the pointer."""
    over = one.locator(".u-over")
    box = over.bounding_box()
    assert box is not None
    over.hover(position={"x": max(1, min(box["width"] - 2, share * box["width"])), "y": 40})
    return one.locator(".u-legend .u-value").first


def drag(page: Page, one: Locator, begin: float, end: float) -> None:
    box = one.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + begin * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + 60, steps=3)
    page.mouse.up()


def test_a_drag_zooms_every_plot_and_is_kept_in_the_url(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}")
    expect(legend_at(chart(page, "loss"), LEFT)).to_have_text("1")
    drag(page, chart(page, "loss"), 0.25, 0.5)

    expect(page).to_have_url(re.compile(r"\?from=5\.\d+&to=10\.\d+$"))
    other = chart(page, HOSTILE[:4])
    expect(legend_at(other, LEFT)).to_have_text(re.compile(r"^[56]$"))
    expect(legend_at(other, RIGHT)).to_have_text(re.compile(r"^1[01]$"))
    page.reload()
    expect(legend_at(chart(page, "loss"), LEFT)).to_have_text(re.compile(r"^[56]$"))
    chart(page, HOSTILE[:4]).locator(".u-over").dblclick()
    expect(page).to_have_url(re.compile(f"/ui/jobs/{job}$"))
    expect(legend_at(chart(page, "loss"), LEFT)).to_have_text("1")
    assert page.locator("main img").count() == 0


def test_plots_are_zoomed_and_panned_by_keyboard(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}")
    everything = page.get_by_role("button", name="Reset zoom")
    expect(everything).to_be_disabled()
    plot = page.get_by_role("group", name="loss over step: plus and minus zoom")
    plot.press("+")
    expect(page).to_have_url(re.compile(r"\?from=5.75&to=15.25$"))
    plot.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"\?from=8.125&to=17.625$"))
    expect(legend_at(chart(page, HOSTILE[:4]), RIGHT)).to_have_text(re.compile("^1[78]$"))

    plot.press("Escape")
    expect(page).to_have_url(re.compile(f"/ui/jobs/{job}$"))
    expect(legend_at(chart(page, "loss"), RIGHT)).to_have_text("20")
    plot.press("+")
    everything.press("Enter")
    expect(everything).to_be_disabled()
    expect(page).to_have_url(re.compile(f"/ui/jobs/{job}$"))


def test_several_jobs_share_a_time_axis(page: Page, gateway: GatewayClient, job: str) -> None:
    slower = measured(gateway, 120)
    open_view(page, gateway, f"/ui/compare?jobs={job},{slower}")
    legend = chart(page, "loss").locator(".u-legend .u-value")
    expect(legend).to_have_count(3)
    page.get_by_label("Axis").select_option("time since start")

    expect(page).to_have_url(re.compile("&axis=time$"))
    expect(legend_at(chart(page, "loss"), RIGHT)).to_have_text("40m 00s")
    expect(legend.nth(2)).to_have_text("0.05")
    legend_at(chart(page, "loss"), 0.5)
    expect(legend).to_have_text(["20m 00s", "0.05", "0.1"])
    page.get_by_role("group", name="loss over time since start").press("+")
    expect(page).to_have_url(re.compile(r"&axis=time&from=645&to=1815$"))
    page.reload()
    expect(legend).to_have_count(3)  # both jobs are drawn
    expect(legend_at(chart(page, "loss"), RIGHT)).to_have_text("30m 00s")
    page.get_by_text("Equivalent curl and CLI commands").first.click()
    expect(page.get_by_text(f"/v1/jobs/{job}/metrics?points=1000")).to_be_visible()


def test_zoom_is_kept_while_a_job_reports(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("forever")
    open_view(page, gateway, f"/ui/jobs/{job_id}?axis=step&from=2&to=4&smoothing=0.5&scale=log")
    later = len(gateway.events(job_id)) + 20
    expect(page.get_by_label("Events, newest last").locator("li").nth(later)).to_be_attached()

    expect(legend_at(chart(page, "loss"), RIGHT)).to_have_text("4")
    expect(page.get_by_label("Smoothing")).to_have_value("0.5")
    expect(page.get_by_label("Log scale")).to_be_checked()
    page.get_by_label("Axis").select_option("time since start")
    expect(page).to_have_url(re.compile(r"\?axis=time&smoothing=0.5&scale=log$"))
    expect(legend_at(chart(page, "loss"), RIGHT)).to_have_text(re.compile("s$"))
    gateway.cancel(job_id)


def test_zooming_into_a_long_job_loads_the_dropped_steps(
    page: Page, gateway: GatewayClient
) -> None:
    job_id = measured(gateway, 60, steps=5000)
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    plot = page.get_by_role("group", name="loss over step: plus and minus zoom")
    for _ in range(8):  # from 5,000 steps to 20
        plot.press("+")

    middle = chart(page, HOSTILE[:4])
    told = middle.locator(".u-legend .u-value")
    legend_at(middle, 0.5)
    expect(told).to_have_text([re.compile("^2,50[01]$")] * 2)
    assert told.first.inner_text() == told.last.inner_text()
    ranges = [url for url in asked if "from_step" in url]
    assert re.search(r"from_step=249\d&to_step=251\d$", ranges[-1])
    page.get_by_label("Axis").select_option("time since start")
    page.get_by_role("group", name="loss over time since start").press("+")
    expect(page).to_have_url(re.compile("from=.*&axis=time"))
    page.reload()
    stretch = page.get_by_role("group", name="loss over time since start")
    with page.expect_response(lambda answer: "to_step=" in answer.url):
        for _ in range(7):
            stretch.press("+")
    legend_at(middle, 0.5)
    expect(told.last).to_have_text(re.compile("^2,50[01]$"))


def test_bars_include_all_latest_steps_of_a_long_job(page: Page, gateway: GatewayClient) -> None:
    parts = {"step_seconds": 9, "generate_seconds": 5, "update_seconds": 3, "waiting_seconds": 1}
    job_id = measured(gateway, 60, steps=5000, **parts)
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    bars = page.get_by_role("list", name="Steps 4941 to 5000; the longest took 9s.")
    expect(bars.get_by_role("listitem")).to_have_count(60)


def test_rest_returns_metrics_of_a_step_range(gateway: GatewayClient) -> None:
    path = f"/v1/jobs/{measured(gateway, 60, steps=2000)}/metrics"
    everything = gateway.http.get(path, params={"points": 100}).json()
    part = {"points": 100, "from_step": 1001, "to_step": 1020}
    found = gateway.http.get(path, params=part).json()

    assert (everything["complete"], found["complete"]) == (False, True)
    assert len(everything["metrics"]["loss"]["steps"]) <= 100
    assert found["metrics"]["loss"]["steps"] == list(range(1001, 1021))
    assert found["metrics"]["loss"]["values"] == [1 / step for step in range(1001, 1021)]
    assert gateway.http.get(path, params={"from_step": -1}).status_code == 400
    assert gateway.http.get(path, params={"from_step": 5, "to_step": 4}).json()["metrics"] == {}
