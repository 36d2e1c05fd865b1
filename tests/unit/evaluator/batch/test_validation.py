"""Lines of a batch's input file that cannot be sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.batches.batches import BatchEndpoint
from services.core.artifacts import SourceFile
from services.core.process.reporter import Reporter
from services.datasets.scan import InvalidFile
from services.datasets.validate import FileValidation
from services.evaluator.batch.spec import BatchFileSpec
from services.evaluator.batch.validation import check_requests


def line(number: int, **body: Any) -> dict[str, Any]:
    message = {"role": "user", "content": f"{number}+1="}
    return {
        "custom_id": f"sum-{number}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "adder", "messages": [message], **body},
    }


def check(
    folder: Path, lines: list[Any], endpoint: BatchEndpoint = BatchEndpoint.CHAT_COMPLETIONS
) -> dict[str, Any]:
    path = folder / "lines.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    file = SourceFile(path=path, filename="lines.jsonl")
    spec = BatchFileSpec(input_file_id=file, endpoint=endpoint, max_requests=3, max_choices=8)
    validation = FileValidation("input_file_id", file, Reporter(folder), lambda _share: None)
    return check_requests(spec, validation)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([line(0), line(1), line(0)], "row 3: custom_id 'sum-0' is that of an earlier row"),
        ([line(0), {**line(1), "url": "/v1/embeddings"}], "row 2: url is '/v1/embeddings'"),
        ([line(0), line(1, model="other")], "row 2: body.model is 'other'"),
        ([line(0, model=None)], "row 1: body.model is missing"),
        ([line(0, model=3)], "row 1: body.model is not a name"),
        ([line(0, stream=True)], "row 1: body.stream is set"),
        ([{**line(0), "method": "GET"}], "row 1: method is 'GET', not 'POST'"),
        ([line(0, messages=[])], "row 1: body.messages is missing or empty"),
        ([{**line(0), "custom_id": ""}], "row 1: custom_id: "),
        ([{**line(0), "urls": "x"}], "row 1: urls: "),
        ([{"custom_id": "a"}], "row 1: method: Field required"),
        ([line(0), "text"], "row 2: is 'text', not an object"),
        ([line(0), line(1, n=9)], "row 2: body.n is 9: a request has at most 8 choices"),
        ([line(0, n="200")], "row 1: body.n must be an integer"),
        ([line(0, guided_json={})], "row 1: body.guided_json has been renamed"),
        ([line(number) for number in range(4)], "row 4: a batch has at most 3 requests"),
    ],
    ids=[
        "repeated-id",
        "other-endpoint",
        "other-model",
        "no-model",
        "model-is-a-number",
        "streamed",
        "method",
        "no-messages",
        "empty-id",
        "unknown-field",
        "missing-fields",
        "not-an-object",
        "many-choices",
        "choices-as-text",
        "renamed-field",
        "too-many",
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, lines: list[Any], said: str) -> None:
    with pytest.raises(InvalidFile) as raised:
        check(tmp_path, lines)

    assert said in raised.value.message
    assert raised.value.param == "input_file_id"


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (BatchEndpoint.COMPLETIONS, {"model": "adder", "prompt": "1+1="}),
        (BatchEndpoint.EMBEDDINGS, {"model": "adder", "input": ["1", "2"]}),
    ],
)
def test_each_endpoint_has_its_own_content(
    tmp_path: Path, endpoint: BatchEndpoint, body: dict[str, Any]
) -> None:
    report = check(tmp_path, [{**line(0), "url": endpoint, "body": body}], endpoint)

    assert (report["rows"], report["model"]) == (1, "adder")
    with pytest.raises(InvalidFile, match="is missing or empty"):
        check(tmp_path, [{**line(0), "url": endpoint}], endpoint)
