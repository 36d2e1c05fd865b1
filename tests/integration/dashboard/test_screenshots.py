"""The documentation's screenshots: taking one, and naming a missing demo."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from infra.screenshots.__main__ import take
from infra.screenshots.demo_runs import DemoMissing, DemoRuns
from infra.screenshots.views import VIEWS
from temper.client import Temper
from tests.support.gateway import GatewayClient


def test_a_screenshot_is_taken(browser: Browser, gateway: GatewayClient, tmp_path: Path) -> None:
    gateway.wait_until(gateway.submit("succeed"), "succeeded")
    jobs = next(view for view in VIEWS if view.name == "jobs")
    file = tmp_path / "jobs.webp"

    take(browser, str(gateway.http.base_url.join("/ui")), jobs, file)

    header = file.read_bytes()[:16]
    assert (header[:4], header[8:12]) == (b"RIFF", b"WEBP")


def test_the_chat_screenshot_has_answers_of_both_models(
    page: Page, gateway: GatewayClient, expected_errors: list[str]
) -> None:
    expected_errors.append("status of 503")
    unready = {"status": 503, "json": {"error": {"message": "the engine is being started"}}}
    piece = {"choices": [{"delta": {"content": "85"}}]}
    stream = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n"
    page.route("**/v1/chat/completions", lambda route: route.fulfill(body=stream))
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**unready), times=1)
    page.goto(str(gateway.http.base_url.join("/ui/chat?model=base&other=tuned")))
    prepare = next(view.prepare for view in VIEWS if view.name == "chat")
    assert prepare is not None

    prepare(page)

    expect(page.locator(".assistant pre")).to_have_text(["85", "85"])


@pytest.mark.parametrize(
    ("view", "demo"),
    [
        ("job", "temper demo addition"),
        ("lineage", "temper demo retool"),
        ("evaluations", "temper demo evaluate"),
        ("campaign", "temper demo campaign"),
        ("chat", "temper demo addition"),
    ],
)
def test_a_missing_demo_is_named(gateway: GatewayClient, view: str, demo: str) -> None:
    path_of = next(each.path for each in VIEWS if each.name == view)
    with (
        Temper(str(gateway.http.base_url)) as client,
        pytest.raises(DemoMissing, match=demo),
    ):
        path_of(DemoRuns(client))
