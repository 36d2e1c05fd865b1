"""The dashboard's forms that start jobs, generated from the gateway's OpenAPI description."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.gateway import GatewayClient

PATHS = {
    "fine-tune": "/v1/fine_tuning/jobs",
    "training": "/v1/fine_tuning/jobs",
    "evaluation": "/v1/evaluations",
    "rollout": "/v1/rollouts",
    "batch": "/v1/batches",
}
KINDS = {name: name for name in PATHS} | dict.fromkeys(("fine-tune", "training"), "fine_tuning")


def open_form(page: Page, gateway: GatewayClient, name: str, query: str = "") -> None:
    page.goto(str(gateway.http.base_url.join(f"/ui/start/{name}{query}")))
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
    if name == "fine-tune":
        page.get_by_text("All settings", exact=True).click()


def body_in(page: Page, region: str) -> Any:
    """The request in a command: the body of its here-document."""
    command = page.get_by_role("region", name=region).text_content() or ""
    return json.loads(command.partition("<<'END'\n")[2].partition("\nEND")[0])


def test_a_fine_tune_is_started_from_a_form(page: Page, gateway: GatewayClient) -> None:
    first = gateway.submit("succeed")
    made = gateway.http.get(f"/v1/fine_tuning/jobs/{first}").json()
    open_form(page, gateway, "fine-tune", f"?model=base&file={made['training_file']}")
    page.get_by_role("textbox", name="suffix", exact=True).fill("succeed")
    page.get_by_role("textbox", name="seed", exact=True).fill("7")
    page.get_by_role("button", name="Add to metadata", exact=True).click()
    page.get_by_label("name of metadata 1", exact=True).fill("team")
    page.get_by_label("metadata 1 (required)", exact=True).fill("<b>blue</b>")

    asked = {
        "model": "base",
        "training_file": made["training_file"],
        "suffix": "succeed",
        "seed": 7,
        "metadata": {"team": "<b>blue</b>"},
    }
    assert body_in(page, "Request as curl") == asked
    page.get_by_role("button", name="Start", exact=True).click()

    expect(page).to_have_url(re.compile("/ui/jobs/ftjob-[0-9a-z]+$"))
    started = gateway.http.get(f"/v1/jobs/{page.url.rpartition('/')[2]}/request").json()["body"]
    assert {name: started[name] for name in asked} == asked


def test_choosing_data_keeps_a_method_that_reads_it(page: Page, gateway: GatewayClient) -> None:
    gateway.submit("succeed")  # registers the model
    rows = {
        "pairs": {"prompt": "1+1=", "chosen": "2", "rejected": "3"},
        "talks": {
            "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        },
    }
    files = {}
    for name, row in rows.items():
        sent = {"file": (f"{name}.jsonl", json.dumps(row).encode())}
        made = gateway.http.post("/v1/files", files=sent, data={"purpose": "fine-tune"})
        files[name] = made.json()["id"]
    open_form(page, gateway, "fine-tune")
    page.get_by_label("Start from").select_option(
        label="Full fine-tuning, with a validation file and metadata"
    )
    method = body_in(page, "Request as curl")["method"]
    status = page.get_by_role("status")
    page.get_by_label("Training data").select_option(files["talks"])
    expect(status.filter(has_text="The rows look like demonstrations")).to_be_visible()
    assert body_in(page, "Request as curl")["method"] == method

    page.get_by_label("Training data").select_option(files["pairs"])
    said = "the method was changed from supervised to dpo; the settings of supervised were left out"
    expect(status.filter(has_text=said)).to_be_visible()
    assert body_in(page, "Request as curl")["method"] == {"type": "dpo"}
    page.get_by_label("model (required)", exact=True).fill("another")
    expect(page.get_by_label("Base model")).to_have_value("another")
    page.get_by_role("textbox", name="seed", exact=True).fill("9007199254740993")
    expect(page.get_by_text("an integer beyond 2^53 would be rounded")).to_be_visible()


@pytest.mark.parametrize("name", PATHS)
def test_a_form_holds_every_example_of_the_description(
    page: Page, gateway: GatewayClient, name: str
) -> None:
    described = gateway.http.get("/openapi.json").json()["paths"][PATHS[name]]["post"]
    examples = described["requestBody"]["content"]["application/json"]["examples"]
    open_form(page, gateway, name)
    for example in examples.values():
        page.get_by_label("Start from").select_option(label=example["summary"])

        assert body_in(page, "Request as curl") == example["value"]
        job_file = {"kind": KINDS[name], **example["value"]}
        assert body_in(page, "Request as CLI commands") == job_file


def test_a_form_rejects_invalid_values(page: Page, gateway: GatewayClient) -> None:
    open_form(page, gateway, "rollout")
    start = page.get_by_role("button", name="Start", exact=True)
    samples = page.get_by_role("textbox", name="samples_per_prompt", exact=True)
    page.get_by_role("button", name="Add to prompts", exact=True).click()
    prompt = page.get_by_role("textbox", name="prompts 1 (required)", exact=True)

    samples.fill("seven")
    prompt.fill("{")
    expect(start).to_be_disabled()
    expect(page.get_by_role("alert")).to_contain_text("samples_per_prompt: not a number")
    expect(page.get_by_role("alert")).to_contain_text("prompts.1: ")
    expect(samples).to_have_attribute("aria-invalid", "true")

    samples.fill("7")
    prompt.fill("")
    expect(start).to_be_enabled()
    assert body_in(page, "Request as curl") == {"samples_per_prompt": 7}


def test_a_form_offers_the_variants_of_a_field(page: Page, gateway: GatewayClient) -> None:
    open_form(page, gateway, "evaluation")
    page.get_by_role("combobox", name="model (required), as").select_option(label="RemoteModel")
    page.get_by_role("textbox", name="base_url (required)").fill("http://127.0.0.1:9/v1")
    page.get_by_role("combobox", name="keep_reasoning").select_option(label="true")

    body = body_in(page, "Request as curl")
    assert body == {"model": {"base_url": "http://127.0.0.1:9/v1"}, "keep_reasoning": True}


def test_items_are_added_to_a_list_and_removed(page: Page, gateway: GatewayClient) -> None:
    open_form(page, gateway, "rollout")
    add = page.get_by_role("button", name="Add to prompts", exact=True)
    add.click()
    page.get_by_role("textbox", name="prompts 1 (required)").fill('{"question": "1+1="}')
    add.click()
    page.get_by_role("textbox", name="prompts 2 (required)").fill('{"question": "2+2="}')
    page.get_by_role("button", name="Remove prompts 1", exact=True).click()

    assert body_in(page, "Request as curl") == {"prompts": [{"question": "2+2="}]}


@pytest.mark.parametrize("name", PATHS)
def test_a_rejection_is_shown_at_the_named_field(
    browser: Browser, gateway: GatewayClient, name: str
) -> None:
    page = browser.new_page()  # the console of `page` may not tell of a refused request
    open_form(page, gateway, name)
    body = body_in(page, "Request as curl")
    error = gateway.http.post(PATHS[name], json=body).json()["error"]
    first = error["details"][0]["message"]
    page.get_by_role("button", name="Start", exact=True).click()

    expect(page.get_by_role("alert")).to_have_text(error["message"])
    at_fault = page.locator(":focus")
    expect(at_fault).to_have_accessible_description(re.compile(re.escape(first)))
    place = page.locator("[data-place]", has=at_fault).last.get_attribute("data-place")
    assert place == error["param"]

    page.get_by_role("button", name="Add to metadata", exact=True).click()
    expect(page.locator("small.error")).to_have_count(0)
    page.close()
