"""GET /v1/files/{id}/rows and POST /v1/files/{id}/examples, as clients see them."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.chat_templates.families import FAMILIES

ROW = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}
BAD = {"messages": [{"role": "user", "content": "1+1?"}]}
QWEN = "rows/qwen"


@pytest.fixture(scope="module")
def model(http: httpx.Client, home: Path) -> str:
    """A model without weights, whose chat template is Qwen's."""
    folder = home / "models" / "rows-qwen"
    folder.mkdir()
    FAMILIES["qwen3"].write(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    (folder / "model.safetensors").touch()
    answer = http.post("/v1/models", json={"id": QWEN, "folder": folder.name})
    assert answer.status_code == 200, answer.text
    return QWEN


def upload(http: httpx.Client, content: str | bytes) -> str:
    form = {"purpose": "fine-tune"}
    answer = http.post("/v1/files", data=form, files={"file": ("rows.jsonl", content)})
    return str(answer.json()["id"])


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def pages(http: httpx.Client, file: str, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not found or found[-1]["has_more"]:
        after = {"after": found[-1]["last_id"]} if found else {}
        answer = http.get(f"/v1/files/{file}/rows", params={"limit": limit, **after})
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
    return found


def test_pages_hold_every_row_once_and_in_order(http: httpx.Client) -> None:
    file = upload(http, lines(*({"n": number} for number in range(7))))

    found = pages(http, file, 3)

    assert [[row["row"] for row in page["data"]] for page in found] == [[1, 2, 3], [4, 5, 6], [7]]
    assert [row["value"]["n"] for page in found for row in page["data"]] == list(range(7))


@pytest.mark.parametrize("content", [lines(*"abc"), json.dumps(list("abc"))])
def test_a_page_can_start_after_a_row_number(http: httpx.Client, content: str) -> None:
    file = upload(http, content if content.startswith("[") else lines({}, {}, {}))

    page = http.get(f"/v1/files/{file}/rows", params={"after": "2"}).json()

    assert [row["row"] for row in page["data"]] == [3]
    assert http.get(f"/v1/files/{file}/rows", params={"after": "3"}).json()["data"] == []


def test_an_unreadable_row_has_a_problem_and_others_are_shown(http: httpx.Client) -> None:
    file = upload(http, b'{"a": 1}\n{"a": \n\xff\n{"a": NaN}\n{"a": 2}\n')

    rows = http.get(f"/v1/files/{file}/rows").json()["data"]

    assert [row["problem"] is None for row in rows] == [True, False, False, False, True]
    assert "UTF-8" in rows[2]["problem"]
    assert rows[4] == {"id": rows[4]["id"], "row": 5, "value": {"a": 2}, "problem": None}


def test_a_file_without_rows_has_a_problem(http: httpx.Client) -> None:
    text = http.get(f"/v1/files/{upload(http, 'no rows at all')}/rows").json()
    cut = http.get(f"/v1/files/{upload(http, '[1, 2, ')}/rows").json()

    assert (text["data"], text["has_more"]) == ([], False)
    assert "neither JSONL" in text["problem"]
    assert [row["value"] for row in cut["data"]] == [1, 2]
    assert "row 3" in cut["problem"]


def test_a_page_of_large_rows_is_shorter_than_its_limit(http: httpx.Client) -> None:
    large = {"text": "x" * (5 << 20)}
    file = upload(http, lines(large, large, {"text": "small"}))

    page = http.get(f"/v1/files/{file}/rows").json()

    assert ([row["row"] for row in page["data"]], page["has_more"]) == ([1], True)
    assert page["data"][0]["value"] == large


def test_ids_of_another_file_are_refused(http: httpx.Client) -> None:
    file = upload(http, lines({"a": "long enough"}, {"a": 2}))

    inside = http.get(f"/v1/files/{file}/rows", params={"after": "1-5"})
    behind = http.get(f"/v1/files/{file}/rows", params={"after": "1-5000"})
    nonsense = http.get(f"/v1/files/{file}/rows", params={"after": "../x"})

    for refused in (inside, behind, nonsense):
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "after")
    assert http.get("/v1/files/file-nobody/rows").status_code == 404


def examples(http: httpx.Client, file: str, model: str, **settings: Any) -> httpx.Response:
    method = {"type": "supervised", "supervised": {"hyperparameters": settings}}
    return http.post(f"/v1/files/{file}/examples", json={"model": model, "method": method})


def learned(example: dict[str, Any]) -> str:
    pairs = zip(example["texts"], example["mask"], strict=True)
    return "".join(text if has_loss else "|" for text, has_loss in pairs).strip("|")


def test_rows_are_shown_as_training_reads_them(http: httpx.Client, model: str) -> None:
    file = upload(http, lines(ROW, BAD))

    answer = examples(http, file, model)

    first, second = answer.json()["data"]
    (example,) = first["examples"]
    text = "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
    assert "".join(example["texts"]).startswith(text)
    assert learned(example).endswith("2<|im_end|>")
    assert len(example["token_ids"]) == len(example["texts"]) == len(example["mask"])
    assert (second["examples"], "last must be" in second["problem"]) == ([], True)


def test_settings_of_the_method_determine_tokens_and_loss(http: httpx.Client, model: str) -> None:
    file = upload(http, lines(ROW))

    def example(**settings: Any) -> dict[str, Any]:
        (row,) = examples(http, file, model, **settings).json()["data"]
        shown: dict[str, Any] = row["examples"][0]
        return shown

    whole = example()
    everything = example(llamafactory={"train_on_prompt": True})
    cut = example(max_seq_length=16)

    assert all(everything["mask"])
    assert not all(whole["mask"])
    assert len(cut["token_ids"]) == 16
    assert cut["cut_tokens"] == len(whole["token_ids"]) - 16


def test_a_row_that_is_too_long_for_tokens_has_a_problem(http: httpx.Client, model: str) -> None:
    long = {"messages": [{"role": "user", "content": "x" * (2 << 20)}, ROW["messages"][1]]}

    first, second = examples(http, upload(http, lines(long, ROW)), model).json()["data"]

    assert "characters, too many" in first["problem"]
    assert second["problem"] is None


def test_a_preference_is_shown_with_both_answers(http: httpx.Client, model: str) -> None:
    pair = {
        "input": {"messages": [{"role": "user", "content": "Hi"}]},
        "preferred_output": [{"role": "assistant", "content": "Hello."}],
        "non_preferred_output": [{"role": "assistant", "content": "What?"}],
    }
    body = {"model": model, "method": {"type": "dpo"}}

    (row,) = http.post(f"/v1/files/{upload(http, lines(pair))}/examples", json=body).json()["data"]

    assert [example["part"] for example in row["examples"]] == ["preferred", "rejected"]
    preferred, rejected = map(learned, row["examples"])
    assert preferred.endswith("Hello.<|im_end|>")
    assert rejected.endswith("What?<|im_end|>")


@pytest.mark.parametrize(
    ("hyperparameters", "field"),
    [
        ({"template": "qwen3"}, "template"),
        ({"llamafactory": {"split_special_tokens": True}}, "llamafactory.split_special_tokens"),
        ({"llamafactory": {"mask_histroy": True}}, "llamafactory.mask_histroy"),
        ({"chat_template_kwargs": {"nobody_reads": 1}}, "chat_template_kwargs"),
    ],
)
def test_unsupported_settings_are_rejected_by_field(
    http: httpx.Client, model: str, hyperparameters: dict[str, Any], field: str
) -> None:
    refused = examples(http, upload(http, lines(ROW)), model, **hyperparameters)

    assert refused.status_code == 400
    assert refused.json()["error"]["param"].endswith(field)


def test_a_model_without_a_tokenizer_is_refused(http: httpx.Client) -> None:
    file = upload(http, lines(ROW))

    unusable = http.post(f"/v1/files/{file}/examples", json={"model": "base"})
    unknown = http.post(f"/v1/files/{file}/examples", json={"model": "nobody"})

    assert (unusable.status_code, unusable.json()["error"]["param"]) == (400, "model")
    assert "tokenizer.json" in unusable.json()["error"]["message"]
    assert unknown.status_code == 404


def test_rows_are_shown_in_the_template_and_tokens_of_an_adapter(
    http: httpx.Client, home: Path, model: str
) -> None:
    folder = home / "models" / "rows-adapter"
    folder.mkdir()
    FAMILIES["llama3_1"].write(folder)
    template = "{% for message in messages %}### {{ message.content }}<|eot_id|>{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)
    (folder / "adapter_config.json").write_text(json.dumps({"r": 8}))
    (folder / "adapter_model.safetensors").touch()
    body = {"id": "rows/adapter", "folder": folder.name, "base": model}
    assert http.post("/v1/models", json=body).status_code == 200

    shown = http.post(
        f"/v1/files/{upload(http, lines(ROW))}/examples", json={"model": "rows/adapter"}
    ).json()

    (example,) = shown["data"][0]["examples"]
    assert "".join(example["texts"]) == "### 1+1?<|eot_id|>### 2<|eot_id|>"
    assert example["texts"][-1] == "<|eot_id|>"
