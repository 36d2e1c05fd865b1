"""Tables of other views, what a page loads, and paths below the dashboard."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.gateway import GatewayClient

MOST_BYTES = 160_000
"""What 50 KB/s bring within four seconds beside five round trips of 150 ms."""


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


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
    shell = gateway.http.get("/ui", headers={"Accept-Encoding": "gzip"})
    sizes = [int(each.headers["content-length"]) for each in (shell, compressed)]
    assert sum(sizes) <= MOST_BYTES
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
