"""The dashboard's chat in a browser, with a stand-in engine."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from sqlalchemy import update

from services.contracts.jobs import JobStatus
from services.core.db.tables import CheckpointRow, JobRow
from services.core.ids import new_id
from services.jobs.job import NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job
from services.models.registry import checkpoint_name
from tests.support.engines.serving_worker import ServingWorker
from tests.support.engines.stand_in import EngineStandIn
from tests.support.gateway import GatewayClient
from tests.support.processes import running_gateway
from tests.support.threaded_server import LoopThread

NAMES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
HOSTILE = "<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chat") / "home"


@pytest.fixture(scope="module")
def models(home: Path) -> Iterator[tuple[str, ServingWorker]]:
    """A gateway with a model of each name, and the worker of their servings."""
    with (
        running_gateway({"TEMPER_HOME": str(home)}, home.parent / "gateway.log") as url,
        GatewayClient(url, home) as client,
        LoopThread() as loop,
    ):
        for name in NAMES:
            write_model(home / "models" / name)
            client.http.post("/v1/models", json={"id": name, "folder": name}).raise_for_status()
        worker = ServingWorker(home, loop, cpu_slots=len(NAMES) + 1)
        yield url, worker
        worker.close()


def write_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "stub"}))
    (folder / "model.safetensors").touch()


def write_checkpoint(worker: ServingWorker, home: Path) -> str:
    """A checkpoint of a fine-tune of all weights; returns its name."""
    method = {"type": "supervised", "supervised": {"hyperparameters": {"training_type": "full"}}}
    request = {"model": "first", "training_file": "file-1", "method": method}
    job_id = new_id("ftjob")
    write_model(home / "jobs" / job_id / "checkpoint")
    made = NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, request)
    place = {"id": new_id("ftckpt"), "path": "checkpoint", "metrics": {}, "created_at": 1.0}
    with worker.database.write() as session:
        create_job(session, made)
        ended = update(JobRow).where(JobRow.id == job_id)
        session.execute(ended.values(status=JobStatus.SUCCEEDED.value))
        session.add(CheckpointRow(job_id=job_id, step=5, **place))
    return checkpoint_name(job_id, 5)


def last_messages(engine: EngineStandIn) -> list[str]:
    """The messages of the last request."""
    return [message["content"] for message in engine.bodies[-1]["messages"]]


def say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def event(data: object) -> str:
    return f"data: {json.dumps(data)}\n\n"


def test_a_message_waits_for_an_engine_and_the_page_says_why(
    page: Page, models: tuple[str, ServingWorker], expected_errors: list[str]
) -> None:
    expected_errors.append("503 (Service Unavailable)")
    url, _ = models
    why = "waiting for 1 CPU slot; 0 free on vm"
    waiting = {"id": "serve-1", "model": "first", "status": "queued", "queue_reason": why}
    error = {"message": "'first' is not ready", "code": "model_not_ready"}
    refused = {"status": 503, "json": {"error": error}}
    page.route("**/v1/servings?*", lambda route: route.fulfill(json={"data": [waiting]}))
    holder = {"id": "ftjob-1", "name": "sums", "kind": "fine_tuning", "eta_seconds": 312.0}
    whole = waiting | {"waits_for": [holder]}
    page.route("**/v1/jobs/serve-1", lambda route: route.fulfill(json=whole))
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**refused))
    page.goto(f"{url}/ui/chat?model=first")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_have_text("Enter a message.")

    with page.expect_response("**/v1/chat/completions"):
        say(page, "hello")
    log = page.get_by_role("log", name="Conversation: Model")
    expect(log).to_contain_text(f"waiting for the model: {why}, held by sums (5m 12s left)")
    expect(log.get_by_role("link", name="its job")).to_have_attribute("href", "/ui/jobs/serve-1")
    page.unroute("**/v1/chat/completions")
    choice = {"delta": {"content": "five"}, "finish_reason": "stop"}
    body = f"{event({'choices': [choice]})}data: [DONE]\n\n"
    page.route("**/v1/chat/completions", lambda route: route.fulfill(body=body))
    expect(log.locator(".assistant pre")).to_have_text("five")
    expect(log).not_to_contain_text("waiting")


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

    assert last_messages(engine) == ["Be brief.", HOSTILE, "one two", "again"]
    assert page.title() == "Chat · Temper"
    expect(page).to_have_url(re.compile("other=second"))


def test_an_answer_can_be_stopped_and_truncation_is_shown(
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
    expect(answers.nth(1)).to_contain_text("the response was interrupted")
    page.unroute("**/v1/chat/completions")
    cut = {"choices": [{"delta": {"content": "one"}, "finish_reason": "length"}]}
    page.route(
        "**/v1/chat/completions", lambda route: route.fulfill(body=event(cut) + "data: [DONE]\n\n")
    )
    say(page, "long")
    expect(answers.nth(2)).to_contain_text("truncated at the maximum number of tokens")
    page.unroute("**/v1/chat/completions")
    say(page, "on")
    expect(answers.nth(3).locator("pre")).to_have_text("one two")
    expect(answers.nth(3)).not_to_contain_text("truncated")

    page.get_by_role("button", name="Clear").click()
    expect(answers).to_have_count(0)
    say(page, "new")
    expect(answers.locator("pre")).to_have_text("one two")
    assert last_messages(engine) == ["new"]


def test_an_error_of_one_model_is_shown_on_its_side_and_can_be_retried(
    page: Page, models: tuple[str, ServingWorker], expected_errors: list[str]
) -> None:
    url, worker = models
    expected_errors.append("status of 404")
    page.goto(f"{url}/ui/chat?model=fourth&other=missing")
    left = page.get_by_role("log", name="Conversation: Model")
    right = page.get_by_role("log", name="Conversation: Other model")

    say(page, "wait")
    first = worker.serve_next(model="fourth").engine
    expect(right.locator(".error")).to_contain_text("missing")
    expect(left.locator(".assistant pre")).to_have_text("one ")
    expect(left.get_by_role("button", name="Try again")).to_have_count(0)

    page.get_by_role("combobox", name="Other model").fill("fifth")
    right.get_by_role("button", name="Try again").click()
    second = worker.serve_next(model="fifth").engine
    expect(right.locator(".assistant pre")).to_have_text("one ")
    expect(right.locator(".user")).to_have_count(1)
    expect(left.locator(".assistant")).to_contain_text("generating")

    page.get_by_role("button", name="Stop").click()
    for side, engine in ((left, first), (right, second)):
        expect(side.locator(".assistant")).to_contain_text("stopped")
        assert engine.hung_up.wait(60)
    say(page, "on")
    for side, engine in ((left, first), (right, second)):
        expect(side.locator(".assistant pre")).to_have_text(["one ", "one two"])
        expect(side.get_by_role("button", name="Try again")).to_have_count(0)
        assert last_messages(engine) == ["wait", "one ", "on"]


def test_retry_after_an_interruption_discards_the_partial_answer(
    page: Page, models: tuple[str, ServingWorker], expected_errors: list[str]
) -> None:
    url, worker = models
    expected_errors.append("net::ERR_")
    page.goto(f"{url}/ui/chat?model=sixth")
    answers = page.locator(".assistant")

    say(page, "half")
    engine = worker.serve_next(model="sixth").engine
    expect(answers).to_contain_text("the response was interrupted")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(answers).to_contain_text("the response was interrupted")
    assert last_messages(engine) == ["half"]
    assert len(engine.bodies) == 2

    # A connection that breaks off may take the last words with it.
    begun = answers.locator("pre").inner_text()
    say(page, "on")
    expect(answers.locator("pre").last).to_have_text("one two")
    assert last_messages(engine) == (["half", "one ", "on"] if begun else ["on"])


def test_an_emptied_setting_is_left_to_the_model(
    page: Page, models: tuple[str, ServingWorker]
) -> None:
    asked: list[Any] = []

    def answer(route: Route) -> None:
        asked.append(route.request.post_data_json)
        piece = {"choices": [{"delta": {"content": "one"}, "finish_reason": "stop"}]}
        route.fulfill(body=event(piece) + "data: [DONE]\n\n")

    page.route("**/v1/chat/completions", answer)
    page.goto(f"{models[0]}/ui/chat?model=fourth")
    page.get_by_label("Temperature").fill("")
    page.get_by_label("Max tokens").fill("7")
    page.get_by_label("Max tokens").press("Tab")
    page.reload()
    expect(page.get_by_label("Temperature")).to_have_value("")
    say(page, "hello")
    expect(page.locator(".assistant pre")).to_have_text("one")
    assert "temperature" not in asked[0]
    assert asked[0]["max_tokens"] == 7

    page.get_by_label("Message").fill("a long message")
    page.evaluate("document.querySelector('a[href=\"#main\"]').click()")
    expect(page).to_have_url(re.compile("#main$"))
    expect(page.locator(".assistant pre")).to_have_text("one")
    expect(page.get_by_label("Message")).to_have_value("a long message")


def test_a_conversation_cleared_during_an_answer_starts_empty(
    page: Page, models: tuple[str, ServingWorker]
) -> None:
    url, worker = models
    page.goto(f"{url}/ui/chat?model=seventh")
    say(page, "wait")
    engine = worker.serve_next(model="seventh").engine
    expect(page.locator(".assistant pre")).to_have_text("one ")

    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    say(page, "new")
    expect(page.locator(".assistant pre")).to_have_text("one two")

    assert last_messages(engine) == ["new"]


def test_chat_with_a_checkpoint_by_name(
    page: Page, home: Path, models: tuple[str, ServingWorker]
) -> None:
    url, worker = models
    name = write_checkpoint(worker, home)
    page.goto(f"{url}/ui/chat")
    page.get_by_role("combobox", name="Model").fill(name)
    say(page, "hello")
    engine = worker.serve_next(model=name).engine

    expect(page.locator(".assistant pre")).to_have_text("one two")
    assert engine.bodies[-1]["model"] == name
    page.reload()
    expect(page.get_by_role("combobox", name="Model")).to_have_value(name)
