"""Files and models through the unmodified ``openai`` package."""

import hashlib
import json
import uuid
from pathlib import Path

import httpx
import openai
import pytest


def upload(client: openai.OpenAI, content: bytes = b"{}\n", name: str = "rows.jsonl") -> str:
    return client.files.create(file=(name, content), purpose="fine-tune").id


def test_a_downloaded_file_equals_the_upload(client: openai.OpenAI) -> None:
    content = bytes(range(256)) * 100

    file = client.files.create(file=("blob.bin", content), purpose="user_data")

    assert file.id.startswith("file-")
    assert (file.object, file.filename, file.purpose) == ("file", "blob.bin", "user_data")
    assert (file.bytes, file.status) == (len(content), "processed")
    assert file.to_dict()["sha256"] == hashlib.sha256(content).hexdigest()
    assert client.files.retrieve(file.id).to_dict() == file.to_dict()
    assert client.files.content(file.id).read() == content


def test_a_file_may_expire(client: openai.OpenAI) -> None:
    file = client.files.create(
        file=("rows.jsonl", b"{}"),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 7200},
    )

    assert file.expires_at == pytest.approx(file.created_at + 7200, abs=1)
    assert client.files.retrieve(file.id) == file
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.create(
            file=("rows.jsonl", b"{}"),
            purpose="batch",
            expires_after={"anchor": "created_at", "seconds": 5},
        )
    assert refused.value.param == "expires_after"


def test_a_file_on_disk_can_be_uploaded_by_path(client: openai.OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n' * 1000)

    file = client.files.create(file=path, purpose="evals")

    assert file.filename == "train.jsonl"
    assert client.files.content(file.id).text == path.read_text()


def test_lists_are_paged_automatically_in_both_orders(client: openai.OpenAI) -> None:
    ids = [client.files.create(file=(f"{n}.jsonl", b"{}"), purpose="batch").id for n in range(5)]

    newest_first = [file.id for file in client.files.list(purpose="batch", limit=2)]
    oldest_first = [file.id for file in client.files.list(purpose="batch", limit=2, order="asc")]

    assert newest_first[:5] == ids[::-1]
    assert oldest_first == newest_first[::-1]


def test_a_page_says_whether_more_files_follow(client: openai.OpenAI) -> None:
    upload(client), upload(client)

    page = client.files.list(limit=1)

    assert len(page.data) == 1
    assert page.has_more
    assert page.has_next_page()
    assert page.get_next_page().data[0].id != page.data[0].id


def test_a_deleted_file_is_gone(client: openai.OpenAI, home: Path) -> None:
    file_id = upload(client)

    deleted = client.files.delete(file_id)

    assert (deleted.id, deleted.object, deleted.deleted) == (file_id, "file", True)
    assert not (home / "files" / file_id).exists()
    with pytest.raises(openai.NotFoundError) as caught:
        client.files.retrieve(file_id)
    assert caught.value.code == "file_not_found"


def test_a_retried_upload_returns_the_first_file(client: openai.OpenAI, home: Path) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}

    def send(content: bytes) -> str:
        return client.files.create(
            file=("a.jsonl", content), purpose="fine-tune", extra_headers=headers
        ).id

    assert send(b"one") == send(b"one")
    with pytest.raises(openai.ConflictError):
        send(b"two")
    assert list((home / "uploads").iterdir()) == []


def register(http: httpx.Client, name: str, **source: str) -> None:
    answer = http.post("/v1/models", json={"id": name, **source})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("name", ["owner/small", "tuned:base:temper:v1", "a/b:c/d", "tiny.1"])
def test_models_with_any_name_are_listed_shown_and_deleted(
    client: openai.OpenAI, http: httpx.Client, name: str
) -> None:
    register(http, name, folder="base")

    assert name in [model.id for model in client.models.list()]
    model = client.models.retrieve(name)
    assert (model.id, model.object, model.owned_by) == (name, "model", "operator")
    assert client.models.delete(name).deleted
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve(name)
    assert caught.value.code == "model_not_found"


def test_a_hub_model_can_be_registered_by_name(client: openai.OpenAI, http: httpx.Client) -> None:
    register(http, "hub-model", hub_id="owner/name", revision="main")

    shown = client.models.retrieve("hub-model").to_dict()

    assert (shown["hub_id"], shown["revision"], shown["folder"]) == ("owner/name", "main", None)
    client.models.delete("hub-model")


def test_a_duplicate_model_name_is_a_conflict(http: httpx.Client) -> None:
    answer = http.post("/v1/models", json={"id": "base", "folder": "base"})

    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "model_exists"


def test_a_base_model_with_an_adapter_cannot_be_deleted(
    client: openai.OpenAI, http: httpx.Client, home: Path
) -> None:
    folder = home / "models" / "adapter"
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    (folder / "adapter_model.safetensors").touch()
    register(http, "full", folder="base")
    register(http, "full-adapter", folder="adapter", base="full")

    assert client.models.retrieve("full-adapter").to_dict()["kind"] == "adapter"
    with pytest.raises(openai.ConflictError) as caught:
        client.models.delete("full")
    assert caught.value.code == "model_in_use"
    client.models.delete("full-adapter")
    client.models.delete("full")
    assert folder.is_dir()  # the operator's folders are never deleted


def test_models_are_paged(http: httpx.Client) -> None:
    names = [f"page-{n}" for n in range(3)]
    for name in names:
        register(http, name, folder="base")

    first = http.get("/v1/models", params={"limit": 2}).json()
    second = http.get("/v1/models", params={"limit": 1, "after": first["last_id"]}).json()

    assert [model["id"] for model in first["data"] + second["data"]] == names[::-1]
    assert first["has_more"]
