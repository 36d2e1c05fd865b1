"""Data in a browser: upload, the check of a file, its rows, and the tokens that training sees."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.chat_templates.families import FAMILIES
from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_gateway

ROW = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}
MODEL = "qwen"
PART = 32 << 20


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayClient]:
    """A gateway with a trainer's worker, and a model without weights."""
    folder = tmp_path_factory.mktemp("data")
    settings = {"TEMPER_HOME": str(folder / "home"), "TEMPER_RECONCILE_SECONDS": "0.5"}
    model = folder / "home" / "models" / MODEL
    model.mkdir(parents=True)
    FAMILIES["qwen3"].write(model)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").touch()
    with (
        running_gateway(settings, folder / "gateway.log") as url,
        running("services.trainer", [], settings, folder / "trainer.log"),
        GatewayClient(url, folder / "home") as client,
    ):
        assert client.http.post("/v1/models", json={"id": MODEL, "folder": MODEL}).is_success
        yield client


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def upload(data: GatewayClient, content: bytes, name: str = "rows.jsonl") -> str:
    form = {"purpose": "fine-tune"}
    answer = data.http.post("/v1/files", data=form, files={"file": (name, content)})
    return str(answer.json()["id"])


def open_view(page: Page, data: GatewayClient, path: str) -> None:
    page.goto(str(data.http.base_url.join(path)))


def choose(page: Page, name: str, content: bytes) -> None:
    chosen = {"name": name, "mimeType": "application/json", "buffer": content}
    page.get_by_label("File to upload").set_input_files(files=chosen)  # type: ignore[arg-type]  # the mapping's values are of several types


def test_an_uploaded_file_is_checked_and_errors_link_to_rows(
    page: Page, data: GatewayClient
) -> None:
    open_view(page, data, "/ui/data")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    choose(page, "sums.jsonl", lines(*[ROW] * 30, {"messages": "none"}, *[ROW] * 5))
    page.get_by_role("button", name="Upload", exact=True).click()

    expect(page).to_have_url(re.compile(r"/ui/data/file-\w+\?check=check-\w+$"))
    expect(page.get_by_role("heading", name="sums.jsonl")).to_be_visible()
    findings = page.get_by_role("table", name="1 invalid rows")
    expect(findings).to_contain_text("messages is 'none', not a list")
    findings.get_by_role("button", name="Show row 31").press("Enter")

    row = page.get_by_role("article").first
    expect(row.get_by_role("heading")).to_have_text("Row 31")
    expect(row).to_contain_text('"messages": "none"')
    page.reload()  # the check and the place are in the address
    expect(page.get_by_role("article").first.get_by_role("heading")).to_have_text("Row 31")
    expect(page.get_by_role("button", name="Show row 31")).to_be_visible()


def test_a_valid_file_shows_its_token_lengths(page: Page, data: GatewayClient) -> None:
    open_view(page, data, f"/ui/data/{upload(data, lines(ROW, {**ROW, 'note': '<b>'}))}")
    page.get_by_label("Count tokens with model").fill(MODEL)
    page.get_by_role("button", name="Check all rows").click()

    section = page.locator("section").filter(has=page.get_by_role("heading", name="Check"))
    expect(section).to_contain_text("2, all valid")
    expect(section).to_contain_text("tokens per row: mean")
    expect(section).to_contain_text("note")
    jobs = page.get_by_role("table", name=re.compile("Jobs that use this file"))
    page.reload()
    expect(jobs.get_by_role("row")).to_have_count(2)
    expect(section).to_contain_text("2, all valid")


def test_rows_are_paged_by_keyboard(page: Page, data: GatewayClient) -> None:
    open_view(page, data, f"/ui/data/{upload(data, lines(*({'n': n} for n in range(25))))}")
    rows = page.get_by_role("article")
    expect(rows).to_have_count(10)
    page.get_by_role("button", name="Next rows").press("Enter")
    expect(rows.first.get_by_role("heading")).to_have_text("Row 11")
    page.get_by_role("button", name="Next rows").press("Enter")
    expect(rows).to_have_count(5)
    expect(page.get_by_role("button", name="Next rows")).to_be_disabled()
    page.get_by_label("From row").fill("3")
    page.get_by_label("From row").press("Enter")

    expect(rows.first.get_by_role("heading")).to_have_text("Row 3")


def test_tokens_in_the_loss_follow_the_settings(page: Page, data: GatewayClient) -> None:
    open_view(page, data, f"/ui/data/{upload(data, lines(ROW, {'messages': []}))}")
    page.get_by_label("Show rows").select_option("training")
    page.get_by_label("Model", exact=True).fill(MODEL)
    page.get_by_role("button", name="Show", exact=True).click()

    tokens = page.get_by_role("figure").locator("pre")
    expect(tokens).to_have_text(re.compile(r"^<\|im_start\|>user\n1\+1\?<\|im_end\|>"))
    first, second = (tokens.locator("span").nth(each).bounding_box() for each in (0, 1))
    assert first is not None
    assert second is not None
    assert second["y"] == first["y"]  # inline, as text
    learned = "".join(tokens.locator(".learned").all_text_contents())
    assert learned.endswith("2<|im_end|>")
    assert "1+1" not in learned
    expect(page.get_by_role("article").nth(1)).to_contain_text("messages")
    page.get_by_text("Hyperparameters that affect tokenization").click()
    page.get_by_text("llamafactory", exact=True).click()
    page.get_by_label("train_on_prompt").select_option("true")
    page.get_by_role("button", name="Show", exact=True).click()

    expect(tokens.locator(":scope > :not(.learned)")).to_have_count(0)
    page.reload()
    expect(tokens.locator(".learned").first).to_be_visible()
    expect(tokens.locator(":scope > :not(.learned)")).to_have_count(0)
    expect(page.get_by_label("train_on_prompt")).to_have_value("true")


def test_the_form_has_the_tokenization_settings_of_the_method(
    page: Page, data: GatewayClient
) -> None:
    settings = quote(json.dumps({"llamafactory": {"mask_history": True}}))
    file = upload(data, lines(ROW))
    open_view(page, data, f"/ui/data/{file}?show=training&model={MODEL}&settings={settings}")
    expect(page.get_by_role("figure")).to_be_visible()
    expect(page.get_by_label("mask_history")).to_have_value("true")
    expect(page.get_by_label("n_epochs")).to_have_count(0)
    page.get_by_label("mask_history").select_option("")
    page.get_by_label("max_seq_length").fill("16")
    page.get_by_role("button", name="Show", exact=True).click()

    expect(page.get_by_role("figure")).to_contain_text("truncated")
    shown = unquote(page.url)
    assert '"max_seq_length":16' in shown.replace(" ", "")
    assert "mask_history" not in shown
    rows = page.get_by_role("heading", name="Rows", exact=True).locator("..")
    rows.get_by_text("Equivalent curl and CLI commands").click()
    same = rows.locator(".same pre")
    expect(same).to_contain_text('"max_seq_length": 16')
    command = f"temper files examples {file} --model '{MODEL}' --method 'supervised'"
    expect(same).to_contain_text(command)
    page.get_by_role("combobox", name="Method", exact=True).select_option("pretraining")

    expect(page.get_by_label("mask_history")).to_have_count(0)
    expect(page.get_by_label("max_seq_length")).to_have_value("16")


def test_invalid_settings_are_reported(page: Page, data: GatewayClient) -> None:
    file = upload(data, lines(ROW))
    open_view(page, data, f"/ui/data/{file}?show=training&model={MODEL}")
    expect(page.get_by_role("figure")).to_be_visible()
    page.get_by_text("Hyperparameters that affect tokenization").click()
    page.get_by_label("max_seq_length").fill("many")
    page.get_by_role("button", name="Show", exact=True).click()

    expect(page.get_by_text("max_seq_length: not a number")).to_be_visible()
    page.goto(f"{page.url}&settings=%7B")

    expect(page.get_by_text("The hyperparameters are not valid JSON.")).to_be_visible()
    expect(page.get_by_role("figure")).to_have_count(0)


def test_a_large_file_is_sent_in_parts(page: Page, data: GatewayClient, tmp_path: Path) -> None:
    large = tmp_path / "large.jsonl"
    line = lines({"messages": [{"role": "user", "content": "x" * 1_000_000}, ROW["messages"][1]]})
    large.write_bytes(line * (2 * PART // len(line) + 1))
    open_view(page, data, "/ui/data")
    page.get_by_label("File to upload").set_input_files(large)
    page.get_by_label("Purpose of the upload").select_option("user_data")
    page.get_by_role("button", name="Upload", exact=True).click()

    expect(page).to_have_url(re.compile(r"/ui/data/file-\w+$"))
    stored = data.http.get(f"/v1/files/{page.url.rpartition('/')[2]}").json()
    assert (stored["bytes"], stored["filename"]) == (large.stat().st_size, "large.jsonl")


def test_an_upload_shows_its_progress_and_can_be_cancelled(page: Page, data: GatewayClient) -> None:
    before = data.http.get("/v1/files").json()["data"]
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/files", hold)
    open_view(page, data, "/ui/data")
    choose(page, "cancelled.jsonl", lines(ROW))
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("progressbar", name="Upload")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("The upload was cancelled.")).to_be_visible()
    expect(page.get_by_role("button", name="Upload", exact=True)).to_be_enabled()
    assert data.http.get("/v1/files").json()["data"] == before
