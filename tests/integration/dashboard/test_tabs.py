"""Many tabs of a browser share one connection for all that is live."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.gateway import GatewayClient

REPLY = (
    'data: {"choices": [{"delta": {"content": "5"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)


OTHERS = {
    "/ui/usage": "Usage",
    "/ui/model?id=base": "base",
    "/ui/alerts": "Alerts",
    "/ui/workers": "Workers",
    "/ui": "Jobs",
}
"""Pages that load on their own, by path, with their headings."""


@pytest.mark.parametrize("tabs", [7, pytest.param(20, marks=pytest.mark.long)])
def test_tabs_of_running_jobs_leave_connections_for_requests(
    page: Page, gateway: GatewayClient, tabs: int
) -> None:
    job_ids = [gateway.submit("forever") for _ in range(2)]
    for job_id in job_ids:
        gateway.wait_until(job_id, "running")
        gateway.http.post(f"/v1/jobs/{job_id}/pause")
        gateway.wait_until(job_id, "paused")
    asking = [page.context.new_page() for _ in range(tabs // 7)]
    for each in asking:  # whose replies do not come, as no engine is running
        each.goto(str(gateway.http.base_url.join("/ui/chat?model=base")))
        each.get_by_label("Message").fill("2+3=")
        each.get_by_role("button", name="Send").click()
        expect(each.get_by_role("log")).to_contain_text("waiting for the model")
    opened = dict(list(OTHERS.items())[: tabs // 4])
    pages = [page, *(page.context.new_page() for _ in range(tabs - len(asking) - len(opened) - 1))]
    for index, each in enumerate(pages):  # HTTP/1.1: a browser opens six connections to a host
        each.goto(str(gateway.http.base_url.join(f"/ui/jobs/{job_ids[index % 2]}")))
    for each in pages:
        expect(each.get_by_role("heading", name="Events")).to_have_text("Events (live)")

    for path, heading in opened.items():
        other = page.context.new_page()
        other.goto(str(gateway.http.base_url.join(path)))
        expect(other.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    for each in asking:
        each.close()
    servings = gateway.http.get("/v1/servings").json()["data"]
    begun = [each["id"] for each in servings if each["finished_at"] is None]
    for job_id in job_ids + begun:
        gateway.cancel(job_id)
    for each in pages:
        expect(each.get_by_role("heading", name="Events")).to_have_text("Events (ended)")
        expect(each.get_by_label("Events, newest last")).to_contain_text("Cancelled")


def test_a_browser_without_shared_workers_polls(page: Page, gateway: GatewayClient) -> None:
    page.add_init_script("delete window.SharedWorker")
    job_id = gateway.submit("forever")
    with page.expect_response(f"**/v1/events?job={job_id}&after=*"):
        page.goto(str(gateway.http.base_url.join(f"/ui/jobs/{job_id}")))
    later = len(gateway.events(job_id))

    expect(page.get_by_label("Events, newest last")).to_contain_text(f"Step {later + 1}:")
    gateway.cancel(job_id)
    expect(page.get_by_role("heading", name="Events")).to_have_text("Events (ended)")
    shown = page.get_by_label("Events, newest last").locator("bdi").all_inner_texts()
    assert shown == [event["message"] for event in gateway.events(job_id)][-len(shown) :]
    assert len(shown) == len(set(shown))


def test_replies_of_many_tabs_wait_for_each_other(page: Page, gateway: GatewayClient) -> None:
    """No more than three replies are streamed at a time; the others say that they wait."""
    pages = [page, page.context.new_page()]
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    for each in pages:
        each.route("**/v1/chat/completions", hold)
        # Whatever other tests serve would explain the wait.
        each.route("**/v1/servings?*", lambda route: route.fulfill(json={"data": []}))
        each.goto(str(gateway.http.base_url.join("/ui/chat?model=base&other=base")))
        each.get_by_label("Message").fill("2+3=")
        each.get_by_role("button", name="Send").click()
    notes = [note for each in pages for note in each.get_by_role("log").locator(".quiet").all()]
    for note in notes[:3]:
        expect(note).to_have_text("waiting for the model")
    expect(notes[3]).to_have_text("waiting for other replies in this browser")
    assert len(held) == 3

    pages[0].close()
    expect(notes[3]).to_have_text("waiting for the model")
    held[-1].fulfill(body=REPLY, content_type="text/event-stream")
    expect(pages[1].get_by_role("log").last).to_contain_text("5")
