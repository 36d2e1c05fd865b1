"""POST /v1/files/{id}/examples for models whose tokenizer is on a hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.chat_templates.families import FAMILIES
from tests.support.models.hub import MAIN, Hub, Kind, Repository, running_hub
from tests.support.processes import running_gateway

ROW = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}
TOKEN = "hf_reader"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A public model, and two that are gated, one of them for others."""
    folder = tmp_path_factory.mktemp("hub")
    FAMILIES["qwen3"].write(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    (folder / "model.safetensors").write_text("weights")
    readers = {"public": None, "ours": frozenset({TOKEN}), "theirs": frozenset({"hf_other"})}
    with running_hub() as hub:
        for name, allowed in readers.items():
            hub.add(Repository(Kind.MODEL, f"lab/{name}", {MAIN: folder}, allowed))
        yield hub


@pytest.fixture(scope="module")
def gateway(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("gateway")
    settings = {
        "TEMPER_HOME": str(folder / "home"),
        "HF_HOME": str(folder / "cache"),
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
    }
    with (
        running_gateway(settings, folder / "gateway.log") as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client
    assert not list((folder / "cache").rglob("*.safetensors"))  # weights are not needed


def shown(gateway: httpx.Client, name: str) -> httpx.Response:
    answer = gateway.post("/v1/models", json={"id": name, "hub_id": f"lab/{name}"})
    assert answer.status_code == 200, answer.text
    content = json.dumps(ROW).encode()
    form = {"purpose": "fine-tune"}
    file = gateway.post("/v1/files", data=form, files={"file": ("rows.jsonl", content)}).json()
    return gateway.post(f"/v1/files/{file['id']}/examples", json={"model": name})


@pytest.mark.parametrize("name", ["public", "ours"])
def test_rows_are_shown_with_the_tokenizer_of_a_hub_model(gateway: httpx.Client, name: str) -> None:
    answer = shown(gateway, name)

    assert answer.status_code == 200, answer.text
    ((example,),) = (row["examples"] for row in answer.json()["data"])
    assert "".join(example["texts"]).startswith("<|im_start|>user\n1+1?<|im_end|>\n")
    assert 0 < sum(example["mask"]) < len(example["mask"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [("theirs", "HF_TOKEN gives no access"), ("nowhere", "has no model lab/nowhere")],
)
def test_a_tokenizer_that_cannot_be_loaded_is_refused_with_the_reason(
    gateway: httpx.Client, name: str, reason: str
) -> None:
    refused = shown(gateway, name)

    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "model")
    assert error["code"] == "tokenizer_unavailable"
    assert reason in error["message"]
    assert TOKEN not in error["message"]


def test_an_unresponsive_hub_is_named(tmp_path: Path) -> None:
    settings = {
        "TEMPER_HOME": str(tmp_path / "home"),
        "HF_HOME": str(tmp_path / "cache"),
        "HF_ENDPOINT": "http://127.0.0.1:9",
    }
    with (
        running_gateway(settings, tmp_path / "gateway.log") as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        refused = shown(client, "public")

    assert refused.status_code == 400
    assert "127.0.0.1:9 cannot be reached" in refused.json()["error"]["message"]
