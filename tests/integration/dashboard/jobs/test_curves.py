"""Curves in a browser: their axis, and the shared zoom by pointer, keyboard and URL."""

import json
import re
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Position, expect
from sqlalchemy import update

from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.jobs.events import append_event
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


MANY, SPIKE = 3000, 700
"""Live steps, and the one whose loss stands out."""
MOST_POINTS = 1200


def test_a_live_plot_is_bounded_and_keeps_extremes_and_the_latest_steps(
    page: Page, gateway: GatewayClient, tmp_path: Path
) -> None:
    job_id = measured(gateway, 60)
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    with database.write() as session:
        runs = {"status": "running", "finished_at": None, "lease_expires_at": time.time() + 600}
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**runs))
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    for first in range(STEPS + 1, MANY + 1, 500):
        with database.write() as session:
            for step in range(first, min(first + 500, MANY + 1)):
                data = {"step": step, "loss": 99.0 if step == SPIKE else step % 7 / 10}
                append_event(session, job_id, f"Step {step}", type="metrics", data=data)
    expect(page.get_by_label("Events, newest last")).to_contain_text(f"Step {MANY}")

    chart(page, "loss").get_by_text("Save", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("button", name="Save loss as CSV").click()
    found.value.save_as(tmp_path / "loss.csv")
    with database.write() as session:
        ended = {"status": "succeeded", "finished_at": time.time(), "lease_expires_at": None}
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**ended))
    database.close()
    lines = (tmp_path / "loss.csv").read_text().splitlines()[1:]
    steps = [int(line.split(",")[0]) for line in lines]
    assert MOST_POINTS / 3 < len(steps) <= MOST_POINTS
    assert f"{SPIKE},99" in lines
    assert steps[-64:] == list(range(MANY - 63, MANY + 1))


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
    """Drag between two shares of a chart's width, once what is above it has its height."""
    expect(page.get_by_role("table", name="Files in the job's folder")).to_be_visible()
    over = one.locator(".u-over")
    box = over.bounding_box()
    assert box is not None
    first, last = (Position(x=share * box["width"], y=60) for share in (begin, end))
    over.drag_to(over, source_position=first, target_position=last, steps=3)


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
    expect(page).to_have_url(re.compile("(?=.*from=)(?=.*axis=time)"))
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


def drawn(values: list[float | None]) -> dict[str, Any]:
    """A curve of these values by step, as the gateway returns it; None is not finite."""
    finite = {step: value for step, value in enumerate(values) if value is not None}
    gone = [step for step, value in enumerate(values) if value is None]
    times = [None] * len(finite)
    known = {"steps": list(finite), "values": list(finite.values()), "times": times}
    return known | {"nonfinite_steps": gone}


def awkward_values() -> list[list[float | None]]:
    """Series that leave a plot without a range or ticks unless it makes its own."""
    random = Random(0)
    scales = [0.0, 5e-324, 1e-300, 1e-7, 1.0, 100.0, 2.0**53, 1e20, 1e300, 1.79e308]
    found: list[list[float | None]] = [[1, 1.0000001, 1], [None, None], [1, None, None, 2]]
    for scale in [*scales, *(-each for each in scales)]:
        for spread in (0.0, 2.0**-52, 1e-12, 1e-7, 1e-4):
            found.append([scale * (1 - spread * random.random()) for _ in range(4)])
        found.append([scale, -scale, 0.0, None])
    return found


@pytest.mark.parametrize("query", ["", "?scale=log"])
def test_every_curve_is_drawn_whatever_its_values(
    page: Page, gateway: GatewayClient, job: str, query: str
) -> None:
    curves = {f"metric {index:03}": drawn(each) for index, each in enumerate(awkward_values())}
    far = {"steps": [2**53 - 1, 2**53], "values": [1, 2], "times": [None, None]}
    curves |= {"loss": drawn([1, 2]), "zz far": far}
    page.route(f"**/v1/jobs/{job}/metrics?*", lambda route: route.fulfill(json={"metrics": curves}))
    open_view(page, gateway, f"/ui/jobs/{job}{query}")
    page.get_by_text(re.compile("^other \\(")).click()

    # The page fails the test if a plot runs out of memory, and times out if one never ends.
    drawn_at_all = page.locator(".chart canvas, .flat li")
    expect(drawn_at_all).to_have_count(len(curves))
    expect(chart(page, "metric 001")).to_contain_text("NaN or infinite at steps 0, 1")
    page.get_by_role("group", name="metric 000 over step").press("+")
    expect(page).to_have_url(re.compile("from=0.5&to=1.5"))


def test_what_a_chart_leaves_out_is_said(
    page: Page, gateway: GatewayClient, job: str, tmp_path: Path
) -> None:
    curves = {
        "loss": drawn([1, 2]),
        "flips": drawn([0.0, 1.0] * 10),
        "gone": drawn([1.0, 2.0, *[None] * 3]),
    }
    curves["gone"] |= {"nonfinite_steps": [2], "nonfinite_count": 9000}
    page.route(f"**/v1/jobs/{job}/metrics?*", lambda route: route.fulfill(json={"metrics": curves}))
    open_view(page, gateway, f"/ui/jobs/{job}?scale=log")

    expect(chart(page, "gone")).to_contain_text("NaN or infinite at steps 2 and 8,999 more")
    expect(chart(page, "gone")).to_contain_text("gone not finite")
    hidden = "A log scale cannot show 10 of 20 points, which are 0 or less"
    expect(chart(page, "flips").get_by_text(hidden)).to_be_visible()
    expect(chart(page, "gone").get_by_text("A log scale cannot")).to_be_hidden()
    chart(page, "flips").get_by_text("Save", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("button", name="Save flips as CSV").click()
    found.value.save_as(tmp_path / "flips.csv")
    assert (tmp_path / "flips.csv").read_text().splitlines()[:3] == ['"step","flips"', "0,0", "1,1"]


INK = """(canvas) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const columns = new Set();
    for (let at = 0; at < data.length; at += 4) {
        const [red, green, blue, alpha] = data.slice(at, at + 4);
        if (alpha > 200 && red > 150 && green < 100 && blue < 60) columns.add((at / 4) % width);
    }
    return columns.size / width;
}"""
"""The share of a canvas's columns that a line of the first color crosses."""


def test_a_value_that_is_not_finite_is_a_gap_and_marked(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    whole: list[float | None] = [1.0, 1.1] * 10
    broken: list[float | None] = [*whole[:5], *[None] * 10, *whole[15:]]
    curves = {"loss": drawn(whole), "worse": drawn(broken)}
    page.route(f"**/v1/jobs/{job}/metrics?*", lambda route: route.fulfill(json={"metrics": curves}))
    open_view(page, gateway, f"/ui/jobs/{job}")

    told = "NaN or infinite at steps 5, 6, 7, 8, 9 and 5 more"
    expect(chart(page, "worse")).to_contain_text(told)
    expect(chart(page, "loss").get_by_text("NaN or infinite")).to_be_hidden()
    inked = [chart(page, name).locator("canvas").evaluate(INK) for name in curves]
    assert inked[1] < 0.6 * inked[0]


def test_a_job_has_the_same_color_in_every_chart(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    other = measured(gateway, 60)
    path = gateway.home / "jobs" / other / "metrics.jsonl"
    changing = [json.loads(line) | {"accuracy": at} for at, line in enumerate(path.open())]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in changing))
    open_view(page, gateway, f"/ui/compare?jobs={job},{other}")
    swatches = "(one) => [...one.querySelectorAll('.u-marker')].map((each) => each.style.border)"
    expect(chart(page, "accuracy").locator("canvas")).to_be_visible()
    both = chart(page, "loss").locator(".u-legend").evaluate(swatches)
    alone = chart(page, "accuracy").locator(".u-legend").evaluate(swatches)

    assert alone[-1] == both[-1] != both[-2]


def test_overlaid_runs_have_no_more_positions_than_a_chart_can_show(
    page: Page, gateway: GatewayClient, job: str, tmp_path: Path
) -> None:
    longer = [measured(gateway, seconds, steps=1000) for seconds in (60, 61)]
    open_view(page, gateway, f"/ui/compare?jobs={','.join([*longer, job])}&axis=time")
    chart(page, "loss").get_by_text("Save", exact=True).click()
    box = chart(page, "loss").bounding_box()
    assert box is not None
    with page.expect_download() as found:
        page.get_by_role("button", name="Save loss as CSV").click()
    found.value.save_as(tmp_path / "loss.csv")

    rows = [line.split(",") for line in (tmp_path / "loss.csv").read_text().splitlines()[1:]]
    assert 200 < len(rows) <= 2 * box["width"] + 4
    values = [[float(row[run]) for row in rows if row[run]] for run in (1, 2, 3)]
    assert [(max(each), min(each)) for each in values] == [(1, 0.001), (1, 0.001), (1, 0.05)]
