"""The filters of the jobs view, which search all jobs, and late responses."""

import re
import uuid

from playwright.sync_api import Locator, Page, Route, expect
from sqlalchemy import insert, select

from services.core.db.engine import Database
from services.core.db.tables import JobRow
from tests.support.gateway import GatewayClient

TEXT = "Search id, model, reason, or metadata"
FIRST_PAGE = 50


def listed(page: Page, job_id: str) -> Locator:
    """The link to a job in the list."""
    return page.locator(f"td a[href='/ui/jobs/{job_id}']")


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def add_cancelled_jobs(gateway: GatewayClient, count: int) -> None:
    """Add cancelled copies of the latest job, without metadata."""
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    columns = [each.name for each in JobRow.__table__.columns if each.name != "seq"]
    with database.write() as session:
        like = session.scalars(select(JobRow).order_by(JobRow.seq.desc()).limit(1)).one()
        common = {name: getattr(like, name) for name in columns}
        changed = {"status": "cancelled", "labels": None, "owner": None}
        rows = [{**common, **changed, "id": f"ftjob-{uuid.uuid4().hex[:24]}"} for _ in range(count)]
        session.execute(insert(JobRow), rows)
    database.close()


def test_jobs_are_filtered_by_status_and_text(page: Page, gateway: GatewayClient) -> None:
    failed, done = gateway.submit("fail"), gateway.submit("succeed", metadata={"team": "blue"})
    gateway.wait_until(failed, "failed")
    gateway.wait_until(done, "succeeded")

    open_view(page, gateway, "/ui?status=failed")
    expect(listed(page, failed)).to_be_visible()
    expect(listed(page, done)).to_have_count(0)
    page.get_by_label("Status").select_option("")
    page.get_by_label("Search id, model, reason, or metadata").fill("BLUE")
    expect(listed(page, done)).to_be_visible()
    expect(listed(page, failed)).to_have_count(0)
    expect(page).to_have_url(re.compile("text=BLUE"))


def test_filters_combine_and_match_metadata_exactly(page: Page, gateway: GatewayClient) -> None:
    blue = gateway.submit("succeed", metadata={"shade": "blue"})
    light = gateway.submit("succeed", metadata={"shade": "blue sky"})
    failed = gateway.submit("fail", metadata={"shade": "blue"})
    for job_id, status in [(blue, "succeeded"), (light, "succeeded"), (failed, "failed")]:
        gateway.wait_until(job_id, status)

    open_view(page, gateway, "/ui?kind=fine_tuning&status=succeeded&metadata=shade%3Dblue")
    expect(listed(page, blue)).to_be_visible()
    expect(listed(page, light)).to_have_count(0)
    expect(listed(page, failed)).to_have_count(0)

    metadata = page.get_by_label("Metadata (exact match)")
    metadata.fill("shade=blue sky")
    metadata.press("Enter")
    expect(listed(page, light)).to_be_visible()
    expect(listed(page, blue)).to_have_count(0)
    page.reload()
    expect(metadata).to_have_value("shade=blue sky")
    expect(page.get_by_label("Status")).to_have_value("succeeded")
    expect(listed(page, light)).to_be_visible()

    metadata.fill("shade")
    metadata.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("key=value")
    expect(metadata).to_have_attribute("aria-invalid", "true")


def test_text_search_covers_jobs_beyond_the_first_page(page: Page, gateway: GatewayClient) -> None:
    label = f"50% {uuid.uuid4().hex}"
    old = gateway.submit("succeed", metadata={"note": label})
    gateway.wait_until(old, "succeeded")
    add_cancelled_jobs(gateway, FIRST_PAGE + 1)
    link = listed(page, old)

    open_view(page, gateway, "/ui")
    expect(page.get_by_role("row")).to_have_count(FIRST_PAGE + 1)  # and the heads of the columns
    expect(link).to_have_count(0)
    page.get_by_label(TEXT).fill(label.upper())
    expect(link).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(2)

    same = page.locator("details.same pre")
    expect(same).to_contain_text("/v1/jobs?text=50%25+")
    expect(same).to_contain_text(f"temper ps --text '{label.upper()}'")
    page.reload()
    expect(page.get_by_label(TEXT)).to_have_value(label.upper())
    expect(link).to_be_visible()
    page.get_by_label("Status").select_option("failed")
    expect(page.get_by_text("No matching jobs.")).to_be_visible()


def test_a_late_response_to_an_older_filter_is_discarded(
    page: Page, gateway: GatewayClient
) -> None:
    failed, done = gateway.submit("fail"), gateway.submit("succeed")
    gateway.wait_until(failed, "failed")
    gateway.wait_until(done, "succeeded")
    late = gateway.http.get("/v1/jobs", params={"status": "failed"}).text
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/jobs?*status=failed*", hold)
    open_view(page, gateway, "/ui?status=succeeded")
    expect(listed(page, done)).to_be_visible()

    status = page.get_by_label("Status")
    with page.expect_request(lambda request: "status=failed" in request.url):
        status.select_option("failed")
    status.select_option("cancelled")
    expect(listed(page, done)).to_have_count(0)
    for route in held:
        route.fulfill(body=late, content_type="application/json")
    page.evaluate("fetch('/v1/workers').then((answer) => answer.text())")  # returns after it

    assert listed(page, failed).count() == 0
    expect(page.get_by_role("alert")).to_be_empty()
    expect(page.locator("details.same pre")).to_contain_text("--status 'cancelled'")
