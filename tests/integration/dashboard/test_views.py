"""The dashboard in a browser, with jobs that run the script named by their suffix."""

import itertools
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.gateway import GatewayClient

HOSTILE = "<img src=x onerror=\"document.title='broken'\">\u202e</td>"


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def test_jobs_are_listed_and_followed_to_their_end(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    open_view(page, gateway, "/")

    row = page.get_by_role("row").filter(has_text=job_id)
    expect(row).to_contain_text("succeeded")
    row.get_by_role("link", name=job_id).click()

    expect(page).to_have_url(re.compile(f"/ui/jobs/{job_id}$"))
    expect(page.get_by_role("heading", name=job_id)).to_be_visible()
    expect(page.get_by_label("Events, newest last")).to_contain_text("Succeeded")
    expect(page.get_by_role("region", name="loss").locator("canvas")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


def test_a_running_job_is_paused_resumed_and_cancelled(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("forever")
    gateway.wait_until(job_id, "running")
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    events = page.get_by_label("Events, newest last")
    expect(events).to_contain_text("Step 3:")
    page.get_by_role("button", name="pause").click()

    expect(page.locator(".status.paused")).to_be_visible()
    assert gateway.job(job_id)["status"] == "paused"
    expect(page.get_by_role("button", name="pause")).to_have_count(0)
    page.get_by_role("button", name="resume").click()

    expect(page.locator(".status.running")).to_be_visible()
    attempts = page.get_by_role("region", name="Latest first")
    expect(attempts.get_by_role("row")).to_have_count(3)  # the heads of the columns, two attempts
    expect(attempts).to_contain_text("paused")
    page.get_by_role("button", name="cancel").click()
    expect(page.locator(".status.cancelled")).to_be_visible()


def test_a_running_job_is_live_and_can_be_cancelled(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("forever")
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    events = page.get_by_label("Events, newest last")

    expect(events).to_contain_text("Step 3:")
    gateway_steps = len(gateway.events(job_id))
    expect(events.locator("li").nth(gateway_steps)).to_be_attached()
    page.get_by_role("button", name="cancel").click()

    expect(page.locator(".status.cancelled")).to_be_visible()
    assert gateway.job(job_id)["status"] == "cancelled"


def test_a_failed_job_shows_its_cause_and_is_retried(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("fail")
    gateway.wait_until(job_id, "failed")
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    expect(page.get_by_text("Correct the row, upload the file again")).to_be_visible()
    page.get_by_role("button", name="retry").click()

    expect(page.get_by_label("Events, newest last")).to_contain_text("Retried on request")


def test_a_job_is_cloned_with_changes(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed", metadata={"team": "<b>blue</b>"}, seed=7)
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    page.get_by_role("link", name="clone").click()
    body = page.get_by_label("Body of POST /v1/fine_tuning/jobs")
    asked = json.loads(body.input_value())
    assert (asked["seed"], asked["metadata"]) == (7, {"team": "<b>blue</b>"})
    expect(page.get_by_text("No changes yet.")).to_be_visible()

    body.fill("{")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    body.fill(json.dumps({**asked, "seed": 8, "metadata": {"team": "red"}}))
    changed = page.get_by_role("region", name="Changes")
    expect(changed.get_by_role("row")).to_have_text(
        ["FieldOriginalNew", 'metadata.team"<b>blue</b>""red"', "seed78"]
    )
    page.get_by_role("button", name="Submit").click()

    expect(page).to_have_url(re.compile("/ui/jobs/ftjob-[0-9a-z]+$"))
    clone = page.url.rpartition("/")[2]
    made = gateway.http.get(f"/v1/fine_tuning/jobs/{clone}").json()
    assert (made["seed"], made["metadata"]) == (8, {"team": "red"})


def test_a_job_shows_its_attempts_with_workers_and_outcomes(
    page: Page, gateway: GatewayClient
) -> None:
    job_id = gateway.submit("fail")
    gateway.wait_until(job_id, "failed")
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    rows = page.get_by_role("region", name="Latest first").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("cpu-")
    expect(rows.last).to_contain_text("failedFailed: ")


def test_a_job_shows_differences_from_defaults_and_another_job(
    page: Page, gateway: GatewayClient
) -> None:
    one = gateway.submit("succeed", seed=7, metadata={"team": "<b>blue</b>"})
    other = gateway.submit("succeed", seed=8)
    open_view(page, gateway, f"/ui/jobs/{one}")
    page.get_by_text("Differences from the defaults").click()

    differing = page.get_by_role("region", name="Changed from the defaults")
    expect(differing.get_by_role("row").filter(has_text="seed")).to_contain_text("7")
    expect(differing.get_by_role("row").filter(has_text="metadata")).to_contain_text("<b>blue</b>")
    expect(differing.get_by_role("row").filter(has_text="priority")).to_have_count(0)
    page.get_by_label("Other job").fill(other)
    page.get_by_role("button", name="Compare").click()
    expect(page).to_have_url(re.compile(f"against={other}$"))
    rows = page.get_by_role("region", name=f"Differs from {other}").get_by_role("row")
    expect(rows.filter(has_text="seed")).to_have_text("seed78")
    page.reload()
    expect(rows.filter(has_text="seed")).to_have_text("seed78")


def test_curves_of_several_jobs_are_overlaid(page: Page, gateway: GatewayClient) -> None:
    first, second = gateway.submit("succeed"), gateway.submit("succeed")
    gateway.wait_until(first, "succeeded")
    gateway.wait_until(second, "succeeded")
    open_view(page, gateway, f"/ui/compare?jobs={first},{second}")

    legend = page.get_by_role("region", name="loss").locator(".u-legend")
    expect(legend).to_contain_text(first)
    expect(legend).to_contain_text(second)


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


def test_a_job_fits_on_a_phone(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed", metadata={"n" * 60: "v" * 200})
    gateway.wait_until(job_id, "succeeded")
    page.set_viewport_size({"width": 390, "height": 800})
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    expect(page.get_by_text("method.type", exact=True)).to_be_visible()
    wide = """() => [...document.querySelectorAll("main *")]
        .filter((each) => !each.closest(".scroll"))
        .filter((each) => each.getBoundingClientRect().right > innerWidth)
        .map((each) => each.outerHTML.slice(0, 100))"""
    assert page.evaluate(wide) == []


def test_job_output_is_shown_as_plain_text(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed", metadata={"note": HOSTILE})
    gateway.wait_until(job_id, "succeeded")
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    expect(page.get_by_text("onerror")).to_be_visible()
    assert page.locator("main img").count() == 0
    assert "broken" not in page.title()


@pytest.mark.parametrize(
    ("view", "text"), [("models", "base"), ("workers", "training"), ("nothing", "no page")]
)
def test_other_views_show_their_tables(
    page: Page, gateway: GatewayClient, view: str, text: str
) -> None:
    gateway.submit("succeed")  # registers the model
    open_view(page, gateway, f"/ui/{view}")

    expect(page.locator("main")).to_contain_text(text)


def test_pages_load_nothing_from_other_origins(gateway: GatewayClient) -> None:
    answer = gateway.http.get("/ui")

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r'(?:src|href)="(?![/"])[^#]', answer.text) == []
    again = gateway.http.get("/ui", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_and_its_script_are_small_and_the_script_is_loaded_once(
    gateway: GatewayClient,
) -> None:
    page = gateway.http.get("/ui")
    (script,) = re.findall(r'data-src="(/ui/scripts/[^"]+)"', page.text)
    answers = {
        coding: gateway.http.get(script, headers={"Accept-Encoding": coding})
        for coding in ("gzip, br", "identity", "br;q=1, gzip;q=0")
    }

    compressed, *plain = answers.values()
    assert compressed.headers["content-encoding"] == "gzip"
    assert "immutable" in compressed.headers["cache-control"]
    assert int(compressed.headers["content-length"]) < 150_000
    assert {each.text for each in plain} == {compressed.text}
    assert not any("content-encoding" in each.headers for each in plain)
    assert page.headers["cache-control"] == "no-cache"
    assert gateway.http.get("/ui/scripts/dashboard-0.js").status_code == 404


def test_the_description_of_the_forms_is_compressed_and_revalidated(gateway: GatewayClient) -> None:
    found = gateway.http.get("/ui/openapi.json", headers={"Accept-Encoding": "gzip"})
    known = {"If-None-Match": found.headers["etag"], "Accept-Encoding": "gzip"}

    assert found.json() == gateway.http.get("/openapi.json").json()
    assert int(found.headers["content-length"]) < 120_000
    assert gateway.http.get("/ui/openapi.json", headers=known).status_code == 304


@pytest.mark.parametrize("path", ["/ui/../app.py", "/ui/%2e%2e/app.py", "/ui/views/../../app.py"])
def test_paths_cannot_escape_the_dashboard(gateway: GatewayClient, path: str) -> None:
    answer = gateway.http.get(path)

    assert "GatewayContext" not in answer.text


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


def test_a_service_that_keeps_exiting_is_shown_with_the_end_of_its_log(
    page: Page, gateway: GatewayClient
) -> None:
    failed = {
        "id": "trainer",
        "status": "failed",
        "exits": 7,
        "reason": "trainer exited with exit code 3",
        "last_lines": ["<b>out of luck</b>"],
        "retry_at": 1,
    }
    running = {"id": "api", "status": "running", "exits": 0, "last_lines": []}
    page.route("**/v1/services", lambda route: route.fulfill(json={"data": [running, failed]}))
    open_view(page, gateway, "/ui/workers")

    expect(page.get_by_text("trainer failed (exits: 7): trainer exited")).to_be_visible()
    expect(page.get_by_text("<b>out of luck</b>")).to_be_visible()
    expect(page.get_by_text("api running")).to_have_count(0)


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
    expect(page.get_by_role("heading", name=job_id)).to_be_visible()


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
    job_id = gateway.submit("forever")
    gateway.wait_until(job_id, "running")
    stub_live_views(page)
    file_id = gateway.http.get(f"/v1/fine_tuning/jobs/{job_id}").json()["training_file"]
    controls = {
        "/ui": page.get_by_role("link", name=job_id),
        f"/ui/jobs/{job_id}": page.get_by_role("button", name="cancel"),
        "/ui/workers": page.get_by_role("region", name="1 workers"),
        "/ui/evaluations": page.get_by_role("checkbox", name="Compare evaljob-1"),
        "/ui/campaigns": page.get_by_role("link", name="campaign-1"),
        "/ui/campaigns/campaign-1": page.get_by_role("link", name="base model").last,
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
@pytest.mark.parametrize(
    ("metrics", "findings"),
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
        (None, ["30% of the requests failed."]),
    ],
)
def test_a_job_shows_its_health(
    page: Page, gateway: GatewayClient, metrics: dict[str, Any] | None, findings: list[str]
) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    steps = range(1, 7) if metrics is not None else ()
    lines = [json.dumps({"step": step, **(metrics or {})}) for step in steps]
    path = gateway.home / "jobs" / job_id / "metrics.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    page.route(f"**/v1/jobs/{job_id}/events?*", lambda route: route.fulfill(json={"data": []}))
    if metrics is None:  # a kind of job that counts
        counts = {"request_counts": {"total": 10, "completed": 7, "failed": 3}}
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

    answers: dict[str, Callable[[], Any]] = {
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
