"""The chat of the dashboard in a browser, before an engine that is a stand-in."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.gateway import GatewayClient
from tests.support.processes import running_gateway
from tests.support.serving_worker import ServingWorker
from tests.support.threaded_server import LoopThread

HOSTILE = "<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ServingWorker]]:
    """A gateway with three models, and the worker of their servings."""
    folder = tmp_path_factory.mktemp("chat")
    home = folder / "home"
    with (
        running_gateway({"TEMPER_HOME": str(home)}, folder / "gateway.log") as url,
        GatewayClient(url, home) as client,
        LoopThread() as loop,
    ):
        for name in ("first", "second", "third"):
            weights = home / "models" / name
            weights.mkdir(parents=True)
            (weights / "config.json").write_text(json.dumps({"model_type": "stub"}))
            (weights / "model.safetensors").touch()
            client.http.post("/v1/models", json={"id": name, "folder": name}).raise_for_status()
        worker = ServingWorker(home, loop)
        yield url, worker
        worker.close()


def say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def event(data: object) -> str:
    return f"data: {json.dumps(data)}\n\n"


def test_two_models_answer_side_by_side(page: Page, models: tuple[str, ServingWorker]) -> None:
    url, worker = models
    page.goto(f"{url}/ui/models")
    page.get_by_role("row").filter(has_text="first").get_by_role("link", name="chat").click()
    page.get_by_label("System prompt").fill("Be brief.")
    left = page.get_by_role("log", name="Conversation: Model")

    say(page, HOSTILE)
    engine = worker.serve_next(model="first").engine
    expect(left.locator(".assistant pre")).to_have_text("one two")
    expect(left.locator(".user pre")).to_have_text(HOSTILE)

    page.get_by_role("button", name="Compare with another model").click()
    page.get_by_role("combobox", name="Other model").fill("second")
    say(page, "again")
    worker.serve_next(model="second")
    right = page.get_by_role("log", name="Conversation: Other model")
    expect(right.locator(".assistant pre")).to_have_text("one two")
    expect(left.locator(".assistant pre")).to_have_text(["one two", "one two"])

    assert [message["content"] for message in engine.bodies[-1]["messages"]] == [
        *("Be brief.", HOSTILE, "one two", "again"),
    ]
    assert page.title() == "Chat · Temper"
    expect(page).to_have_url(re.compile("other=second"))


def test_an_answer_is_stopped_and_a_cut_one_says_so(
    page: Page, models: tuple[str, ServingWorker]
) -> None:
    url, worker = models
    page.goto(f"{url}/ui/chat?model=third")
    say(page, "wait")
    engine = worker.serve_next(model="third").engine
    answers = page.locator(".assistant")
    expect(answers.locator("pre")).to_have_text("one ")

    page.get_by_role("button", name="Stop").click()
    expect(answers).to_contain_text("stopped")
    assert engine.hung_up.wait(60)

    piece = {"choices": [{"delta": {"content": "one "}}]}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(body=event(piece)))
    say(page, "half")
    expect(answers.nth(1)).to_contain_text("the answer broke off")
    page.unroute("**/v1/chat/completions")
    say(page, "on")
    expect(answers.nth(2).locator("pre")).to_have_text("one two")

    page.get_by_role("button", name="Clear").click()
    expect(answers).to_have_count(0)
    say(page, "new")
    expect(answers.locator("pre")).to_have_text("one two")
    assert [message["content"] for message in engine.bodies[-1]["messages"]] == ["new"]
