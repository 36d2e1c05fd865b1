"""Jobs in a browser, from their list to their end: pauses, failures, copies, attempts."""

import json
import re

from playwright.sync_api import Page, expect

from tests.support.gateway import GatewayClient

HOSTILE = "<img src=x onerror=\"document.title='broken'\">\u202e</td>"


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def test_jobs_are_listed_and_followed_to_their_end(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    open_view(page, gateway, "/")

    row = page.get_by_role("row").filter(has_text=job_id)
    expect(row).to_contain_text("succeeded")
    row.get_by_role("link", name="succeed").click()

    expect(page).to_have_url(re.compile(f"/ui/jobs/{job_id}$"))
    expect(page.get_by_role("heading", name="succeed")).to_be_visible()
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


def test_a_clone_and_a_sweep_keep_nulls_and_all_digits(page: Page, gateway: GatewayClient) -> None:
    gateway.submit("succeed")  # registers the model
    prompt = {"question": "1+1=", "gold": 12345678901234567890, "weight": 1.0}
    body = {"model": "base", "prompts": [prompt], "seed": None}
    made = gateway.http.post("/v1/rollouts", json=body).json()["id"]
    asked = gateway.http.get(f"/v1/jobs/{made}/request").text
    open_view(page, gateway, f"/ui/jobs/{made}/clone")
    expect(page.get_by_text("No changes yet.")).to_be_visible()
    page.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(re.compile("/ui/jobs/rollout-[0-9a-z]+$"))
    assert page.url.rpartition("/")[2] != made
    assert gateway.http.get(f"/v1/jobs/{page.url.rpartition('/')[2]}/request").text == asked

    open_view(page, gateway, f"/ui/jobs/{made}/sweep")
    page.get_by_label("Name of the sweep").fill("exact")
    page.get_by_label("Field to vary").fill("samples_per_prompt")
    page.get_by_label("Values, separated by commas").fill("2, 3")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("columnheader", name="samples_per_prompt")).to_be_visible()
    for each in gateway.http.get("/v1/jobs?metadata=sweep=exact").json()["data"]:
        swept = gateway.http.get(f"/v1/jobs/{each['id']}/request").json()["body"]
        assert (swept["seed"], swept["prompts"]) == (None, [prompt])


def test_a_job_that_is_retried_elsewhere_is_live_again(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("fail")
    gateway.wait_until(job_id, "failed")
    page.clock.install()
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    expect(page.get_by_role("button", name="retry")).to_be_visible()
    assert gateway.http.post(f"/v1/jobs/{job_id}/retry").status_code == 200
    rows = page.get_by_role("region", name="Latest first").get_by_role("row")

    for _ in range(100):
        page.clock.run_for(1000)
        if rows.count() == 3:
            break
    expect(rows).to_have_count(3)


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
    rows = page.get_by_role("region", name="Differs from the other job").get_by_role("row")
    expect(rows.filter(has_text="seed")).to_have_text("seed78")
    page.reload()
    expect(rows.filter(has_text="seed")).to_have_text("seed78")


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
