"""Curves, step times and the timeline of a job in a browser."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.gateway import GatewayClient


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def test_curves_of_several_jobs_are_overlaid(page: Page, gateway: GatewayClient) -> None:
    first, second = gateway.submit("succeed"), gateway.submit("succeed")
    gateway.wait_until(first, "succeeded")
    gateway.wait_until(second, "succeeded")
    open_view(page, gateway, f"/ui/compare?jobs={first}")
    page.get_by_label("Job to add").select_option(second)
    page.get_by_role("button", name="Add").click()

    legend = page.get_by_role("region", name="loss").locator(".u-legend")
    for job_id in (first, second):  # of the same name
        expect(legend).to_contain_text(f"succeed (…{job_id[-6:]})")


def test_step_times_are_divided_into_parts(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    steps = [
        {
            **{"step": 6, "step_seconds": 10, "generate_seconds": 4, "reward_seconds": 2},
            **{"update_seconds": 2, "waiting_seconds": 2},
        },
        {
            **{"step": 7, "step_seconds": 10, "generate_seconds": 5, "reward_seconds": 0},
            **{"update_seconds": 5, "waiting_seconds": 0},
        },
        {"step": 8, "step_seconds": 10, "update_seconds": 5},  # a thinned curve
    ]
    with (gateway.home / "jobs" / job_id / "metrics.jsonl").open("a") as metrics:
        metrics.writelines(f"{json.dumps(step)}\n" for step in steps)
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    bars = page.get_by_role("list", name="Steps 6 to 7; the longest took 10s.")
    expect(bars).to_be_visible()
    label = bars.get_attribute("aria-label") or ""
    assert label.endswith("generating 45%, rewards 10%, update 35%, waiting 10%")
    heights = [piece.bounding_box() for piece in bars.locator(".stack").first.locator("span").all()]
    generate, reward, update, waiting = (box["height"] for box in heights if box)
    assert [round(part / waiting) for part in (generate, reward, update)] == [2, 1, 1]


def test_undivided_step_times_have_bars(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    times = {"step_seconds": 10, "rollout_seconds": 5, "update_seconds": 4}
    with (gateway.home / "jobs" / job_id / "metrics.jsonl").open("a") as metrics:
        metrics.writelines(f"{json.dumps({'step': step, **times})}\n" for step in (6, 7))
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    bars = page.get_by_role("list", name="Steps 6 to 7; the longest took 10s.")
    expect(bars).to_have_attribute(
        "aria-label", re.compile("rollouts 50%, update 40%, waiting 10%$")
    )


def test_the_timeline_marks_policy_versions_and_links_to_steps(
    page: Page, gateway: GatewayClient
) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    steps = [
        {
            **{"step": 6, "step_seconds": 10, "generate_seconds": 5, "tools_seconds": 2},
            **{"update_seconds": 2, "waiting_seconds": 1, "version": 6},
        },
        {
            **{"step": 7, "step_seconds": 5, "generate_seconds": 4, "tools_seconds": 0},
            **{"update_seconds": 1, "waiting_seconds": 0, "version": 7},
        },
    ]
    with (gateway.home / "jobs" / job_id / "metrics.jsonl").open("a") as metrics:
        metrics.writelines(f"{json.dumps(step)}\n" for step in steps)
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    timeline = page.get_by_role("list", name="Timeline of the latest steps")
    expect(timeline.get_by_role("listitem")).to_have_text(["6 v6", "7 v7"])
    first = timeline.get_by_role("link").first
    assert first.get_attribute("aria-label") == (
        "step 6: 10 s, then policy version 6\ngenerating 5 s\ntools 2 s\nupdate 2 s\nwaiting 1 s"
    )
    widths = [
        box["width"] for each in timeline.get_by_role("link").all() if (box := each.bounding_box())
    ]
    assert widths[0] > 1.5 * widths[1]
    first.press("Enter")
    expect(page).to_have_url(re.compile(rf"/ui/jobs/{job_id}/trajectories\?step=6$"))


@pytest.mark.drill
def test_the_use_of_devices_is_under_the_timeline(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    folder = gateway.home / "jobs" / job_id
    parts = {"step_seconds": 10, "generate_seconds": 6, "update_seconds": 4, "waiting_seconds": 0}
    steps = [{"step": step, "time": 10.0 * step, **parts} for step in (11, 12)]
    card = {"id": "GPU-a", "percent": 80, "used": 20 << 30, "total": 80 << 30}
    samples = [
        {"time": 95.0 + 5 * number, "cores": 1.5, "usable_cores": 2, "memory_bytes": 3 << 30}
        | {"busiest": "learner", "gpus": [card]}
        for number in range(7)
    ]
    for name, rows in (("metrics", steps), ("utilization", samples)):
        text = "".join(f"{json.dumps(each)}\n" for each in rows)
        (folder / f"{name}.jsonl").write_text(text)
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    lanes = page.get_by_role("region", name="Devices").get_by_role("listitem")
    expect(lanes.first).to_contain_text("Processor 1.5 of 2 cores on average, at most 3.0 GiB")
    expect(lanes.first).to_contain_text("mostly learner")
    expect(lanes.last).to_contain_text("GPU-a computing 80 % of the time, at most 20 GiB of 80 GiB")
    drawn = lanes.first.locator("polyline").get_attribute("points")
    assert drawn is not None
    assert len(drawn.split()) == 5  # the samples of the steps' 20 seconds


def test_a_job_without_step_times_shows_none(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    expect(page.get_by_role("region", name="loss").locator("canvas")).to_be_visible()
    expect(page.get_by_role("heading", name="Time per step")).to_have_count(0)


COUNTED = {"request_counts", "metrics", "benchmarks"}
"""Fields in which kinds of jobs count."""


@pytest.mark.drill
@pytest.mark.parametrize(
    ("metrics", "findings"),  # counts of a kind of job that reports no metrics of steps
    [
        ({"loss": 0.5, "grad_norm": 0.1, "cut_off_rate": 0.0}, ["Healthy: no rule below"]),
        (
            {"grad_norm": 0.0, "advantage_std": 0.0, "cut_off_rate": 0.4},
            [
                "In 6 of the latest 6 steps every group had equal rewards",
                "In 6 of the latest 6 steps the gradient was zero",
                "40% of the answers were cut off",
            ],
        ),
        ({"loss": None, "grad_norm": 0.1}, ["NaN or infinite at some steps: loss."]),
        (
            {"request_counts": {"total": 10, "completed": 7, "failed": 3}},
            ["30% of the requests failed."],
        ),
        (
            {"metrics": {"samples": 10, "errors": 0, "unparsable": 0, "cut_off": 4}},
            ["40% of the samples were cut off at a limit such as max_tokens"],
        ),
        (
            {"benchmarks": [{"metrics": {"samples": 5, "errors": each}} for each in (2, 1)]},
            ["30% of the samples have no answer or no grade"],
        ),
    ],
)
def test_a_job_shows_its_health(
    page: Page, gateway: GatewayClient, metrics: dict[str, Any], findings: list[str]
) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    counts = metrics if COUNTED & metrics.keys() else None
    lines = [json.dumps({"step": step, **metrics}) for step in range(1, 7) if counts is None]
    path = gateway.home / "jobs" / job_id / "metrics.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    page.route(f"**/v1/jobs/{job_id}/events?*", lambda route: route.fulfill(json={"data": []}))
    if counts is not None:
        whole = gateway.http.get(f"/v1/fine_tuning/jobs/{job_id}").json() | counts
        page.route(f"**/v1/fine_tuning/jobs/{job_id}", lambda route: route.fulfill(json=whole))
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    health = page.get_by_role("region", name="Health")
    expect(health.locator(".findings li")).to_have_text([re.compile(each) for each in findings])
    summary = page.get_by_role("region", name="Summary")  # it stays in view
    expect(summary).to_contain_text(f"Health: {findings[0]}")
    level = "good" if findings[0].startswith("Healthy") else "bad"
    expect(summary).to_have_attribute("data-health", level)
    health.get_by_text("How health is judged").click()
    expect(health).to_contain_text("cut_off_rate: a share of the answers were cut off")
