"""Forms that start jobs, filled in as a user would, with real workers behind the gateway.

The gateway ends up with the request that the form showed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.dashboard.form import Form
from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_gateway
from tests.unit.evaluator.chat_server import ChatServer


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """An endpoint that adds."""
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, server: ChatServer
) -> Iterator[GatewayClient]:
    """A gateway with the registered model ``base``, workers, and an endpoint that it may ask."""
    folder = tmp_path_factory.mktemp("forms")
    settings = {
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_GRACE_SECONDS": "1",
        "TEMPER_RECONCILE_SECONDS": "0.5",
        "TEMPER_CPU_SLOTS": "2",
        "TEMPER_ALLOWED_ENDPOINTS": server.url.removesuffix("/v1"),
    }
    with (
        running_gateway(settings, folder / "gateway.log") as url,
        running("tests.support.jobs.stub_worker", [], settings, folder / "trainer.log"),
        running("services.evaluator", [], settings, folder / "evaluator.log"),
        GatewayClient(url, folder / "home") as client,
    ):
        client.submit("succeed")  # registers the model
        yield client


def upload(gateway: GatewayClient, purpose: str, *rows: dict[str, Any]) -> str:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    files = {"file": (f"{purpose}.jsonl", content)}
    made = gateway.http.post("/v1/files", files=files, data={"purpose": purpose})
    return str(made.json()["id"])


def test_a_fine_tune_is_filled_in_and_started(page: Page, gateway: GatewayClient) -> None:
    upload(gateway, "fine-tune", {"messages": []})
    form = Form(page, gateway, "fine-tune")
    form.fill("model (required)", "base")
    file = form.pick("training_file (required)", "fine-tune.jsonl")
    form.fill("suffix", "succeed")
    form.click("Add to metadata")
    form.fill("name of metadata 1", "team")
    form.fill("metadata 1 (required)", "<b>blue</b>")
    form.unfold("method")
    form.within("method")
    form.choose("type", "supervised")
    form.unfold("supervised")
    form.within("method.supervised")
    form.unfold("hyperparameters")
    form.within("method.supervised.hyperparameters")
    form.fill("max_seq_length", "512")

    assert form.shown == {
        "model": "base",
        "training_file": file,
        "suffix": "succeed",
        "metadata": {"team": "<b>blue</b>"},
        "method": {
            "type": "supervised",
            "supervised": {"hyperparameters": {"max_seq_length": 512}},
        },
    }
    gateway.wait_until(form.submit(), "succeeded")
    expect(page.get_by_text("succeeded").first).to_be_visible()


def test_an_evaluation_of_an_endpoint_is_filled_in_and_succeeds(
    page: Page, gateway: GatewayClient, server: ChatServer
) -> None:
    upload(gateway, "evals", *({"prompt": f"{n}+1=", "gold": n + 1} for n in range(3)))
    form = Form(page, gateway, "evaluation")
    form.choose("model (required), as", "RemoteModel")
    form.within("model")
    form.fill("base_url (required)", server.url)
    form.fill("model (required)", "adder")
    form.leave()
    file = form.pick("file", "evals.jsonl")
    form.choose("grader, as", "numeric")
    form.within("grader")
    form.fill("absolute_tolerance", "0.5")

    assert form.shown == {
        "model": {"base_url": server.url, "model": "adder"},
        "file": file,
        "grader": {"type": "numeric", "absolute_tolerance": 0.5},
    }
    job_id = form.submit()
    gateway.wait_until(job_id, "succeeded")
    page.get_by_role("link", name="answers").first.click()
    expect(page.get_by_text("3 answers", exact=True)).to_be_visible()
    expect(page.locator("td .status.succeeded")).to_have_count(3)


def test_a_rollout_with_tools_and_rewards_is_filled_in_and_started(
    page: Page, gateway: GatewayClient
) -> None:
    form = Form(page, gateway, "rollout")
    form.fill("model (required)", "base")
    form.click("Add to prompts")
    form.fill("prompts 1 (required)", '{"question": "1+1=", "gold": "2"}')
    form.choose("prompt_type", "qwen_retool")
    form.click("Add to tools")
    form.within("tools.1")
    form.fill("class_name (required)", "sandbox")
    form.leave()
    form.unfold("multi_turn")
    form.within("multi_turn")
    form.choose("multi_turn_enable", "true")
    form.fill("max_tool_calls", "4")
    form.leave()
    form.click("Add to rewards")
    form.within("rewards.1")
    form.fill("name (required)", "answer")
    form.choose("reward (required), as", "retool")
    form.within("rewards.1.reward")
    form.choose("equivalence", "math")

    assert form.shown == {
        "model": "base",
        "prompts": [{"question": "1+1=", "gold": "2"}],
        "prompt_type": "qwen_retool",
        "tools": [{"class_name": "sandbox"}],
        "multi_turn": {"multi_turn_enable": True, "max_tool_calls": 4},
        "rewards": [{"name": "answer", "reward": {"type": "retool", "equivalence": "math"}}],
    }
    form.submit()


def test_an_online_training_by_another_method_is_filled_in_and_started(
    page: Page, gateway: GatewayClient
) -> None:
    upload(gateway, "fine-tune", {"question": "1+1=", "gold": "2"})
    form = Form(page, gateway, "training")
    form.fill("model (required)", "base")
    file = form.pick("training_file (required)", "fine-tune.jsonl")
    form.fill("suffix", "succeed")
    form.within("method")
    form.choose("type", "ppo")
    form.click("Omit reinforcement")
    form.unfold("ppo")
    form.within("method.ppo")
    form.click("Add to rewards")
    form.within("method.ppo.rewards.1")
    form.fill("name (required)", "match")
    form.choose("reward (required), as", "search_em")

    assert form.shown == {
        "model": "base",
        "training_file": file,
        "suffix": "succeed",
        "method": {
            "type": "ppo",
            "ppo": {"rewards": [{"name": "match", "reward": {"type": "search_em"}}]},
        },
    }
    form.submit()


def test_a_batch_is_filled_in_and_completes(
    page: Page, gateway: GatewayClient, server: ChatServer
) -> None:
    body = {"model": "adder", "messages": [{"role": "user", "content": "1+1="}]}
    line = {"custom_id": "sum", "method": "POST", "url": "/v1/chat/completions", "body": body}
    upload(gateway, "batch", line)
    form = Form(page, gateway, "batch")
    file = form.pick("input_file_id (required)", "batch.jsonl")
    form.choose("endpoint (required)", "/v1/chat/completions")
    form.fill("base_url", server.url)
    form.fill("max_concurrency", "8")

    assert form.shown == {
        "input_file_id": file,
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "base_url": server.url,
        "max_concurrency": 8,
    }
    job_id = form.submit()
    gateway.wait_until(job_id, "succeeded")
    assert gateway.http.get(f"/v1/batches/{job_id}").json()["request_counts"]["completed"] == 1


def test_a_list_of_an_example_can_be_omitted(page: Page, gateway: GatewayClient) -> None:
    form = Form(page, gateway, "rollout")
    form.choose(
        "Start from", "A registered model that runs code, rewarded for a correct boxed answer"
    )
    form.click("Remove tools 1")

    assert "tools" not in form.shown


def test_map_entries_need_unique_names(page: Page, gateway: GatewayClient) -> None:
    form = Form(page, gateway, "fine-tune")
    for number in (1, 2):
        form.click("Add to metadata")
        form.fill(f"metadata {number} (required)", "blue")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("metadata: a value has no name")
    form.fill("name of metadata 1", "team")
    form.fill("name of metadata 2", "team")
    expect(alert).to_have_text("metadata: two values are named team")
    form.fill("name of metadata 2", "site")

    expect(alert).to_be_empty()
    assert form.shown == {"metadata": {"team": "blue", "site": "blue"}}


def test_every_rejected_field_shows_its_error(browser: Browser, gateway: GatewayClient) -> None:
    page = browser.new_page()  # the console of `page` may not tell of a refused request
    form = Form(page, gateway, "rollout")
    form.click("Add to tools")
    form.click("Add to tools")
    form.click("Remove tools 1")
    form.click("Add to rewards")
    page.get_by_role("button", name="Start", exact=True).click()

    expect(page.get_by_label("model (required)", exact=True)).to_be_focused()
    missing = ["model (required)", "class_name (required)", "name (required)"]
    for name in missing:
        control = page.get_by_label(name, exact=True)
        expect(control).to_have_accessible_description(re.compile("Field required"))
        expect(control).to_have_attribute("aria-invalid", "true")
    form.fill("model (required)", "base")
    expect(page.locator("small.error")).to_have_count(0)
    page.close()
