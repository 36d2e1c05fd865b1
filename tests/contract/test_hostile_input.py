"""Malicious requests are rejected by name on every database and corrupt nothing stored."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.support.gateway import GatewayClient

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def gateway(each_database: GatewayClient) -> GatewayClient:
    each_database.submit("succeed", metadata={"suite": "mine"})
    return each_database


def training_file(gateway: GatewayClient) -> str:
    listed = gateway.http.get("/v1/files", params={"purpose": "fine-tune"}).json()["data"]
    return str(listed[0]["id"])


def create(gateway: GatewayClient, fields: str) -> httpx.Response:
    """Create a job from raw JSON text, which may be malformed."""
    file_id = training_file(gateway)
    body = f'{{"model": "base", "training_file": "{file_id}", {fields}}}'
    return gateway.http.post("/v1/fine_tuning/jobs", content=body.encode(), headers=JSON)


def argument(value: str) -> str:
    """A request with a value in a field that accepts any JSON."""
    return f'"hyperparameters": {{"llamafactory": {{"lr_scheduler_kwargs": {value}}}}}'


@pytest.mark.parametrize(
    "fields",
    [
        '"metadata": {"a": "x\\u0000"}',
        '"metadata": {"a\\u0000": "x"}',
        '"metadata": {"a": "\\ud800"}',
        '"\\ud800": 1',
        '"model": "\\udfff"',
        argument('{"a": NaN}'),
        argument('{"a": -Infinity}'),
        argument('{"a": "\\u0000"}'),
        argument('{"\\ud800": 1}'),
        argument(f'{{"a": {"[" * 400}{"]" * 400}}}'),
        argument(f'{{"a": {"[" * 100_000}{"]" * 100_000}}}'),
        '"hyperparameters": {"learning_rate": NaN}',
        f'"seed": {"9" * 5000}',
        '"priority": 1e400',
        '"model": 1',
    ],
)
def test_a_body_that_cannot_be_stored_is_rejected(gateway: GatewayClient, fields: str) -> None:
    before = job_ids(gateway)

    answer = create(gateway, fields)

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert job_ids(gateway) == before


def job_ids(gateway: GatewayClient) -> list[str]:
    return [job["id"] for job in gateway.http.get("/v1/jobs").json()["data"]]


@pytest.mark.parametrize("pattern", ["(?=x)", "(", "((x{999}){999}){999}", r"\1"])
def test_a_pattern_outside_re2_is_rejected(gateway: GatewayClient, pattern: str) -> None:
    file_id = training_file(gateway)
    grader = {"type": "regex", "pattern": pattern}
    body = {"model": "base", "file": file_id, "grader": grader}

    error = gateway.http.post("/v1/evaluations", json=body).json()["error"]

    assert error["param"] == "grader.pattern"
    assert error["message"].startswith("not an RE2 pattern: ")


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"", JSON),
        (b"{", JSON),
        (b"[]", JSON),
        (b"null", JSON),
        (b'"\xff"', JSON),
        (b"{}", {"Content-Type": "text/plain"}),
        (b"model=base", {"Content-Type": "application/x-www-form-urlencoded"}),
        (b"{}", {}),
    ],
)
def test_a_body_that_is_not_a_json_object_is_rejected(
    gateway: GatewayClient, content: bytes, headers: dict[str, str]
) -> None:
    answer = gateway.http.post("/v1/evaluations", content=content, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_an_oversized_json_body_is_rejected(gateway: GatewayClient) -> None:
    def endless() -> Iterator[bytes]:
        yield b'{"model": "'
        for _ in range(64):
            yield b"x" * 100_000

    declared = gateway.http.post("/v1/evaluations", content=b" " * (5 << 20), headers=JSON)
    streamed = gateway.http.post("/v1/evaluations", content=endless(), headers=JSON)

    for answer in (declared, streamed):
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "payload_too_large"
        assert answer.headers["x-request-id"]


def test_a_nul_in_a_query_is_refused_by_every_list_with_the_name_of_its_parameter(
    gateway: GatewayClient,
) -> None:
    paths = gateway.http.get("/openapi.json").json()["paths"]
    asked = [
        (path, parameter["name"])
        for path, operations in paths.items()
        if path.startswith("/v1/")
        for parameter in operations.get("get", {}).get("parameters", ())
        if parameter["in"] == "query"
    ]

    for path, name in asked:
        url = re.sub(r"{[^}]+}", "absent", path)
        answer = gateway.http.get(url, params={name: "\0none such"})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name), path
    assert {("/v1/jobs", "text"), ("/v1/models", "text"), ("/v1/files", "text")} <= set(asked)


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/v1/jobs/%00", {400, 404}),
        ("/v1/jobs/%ff%fe", {404}),
        ("/v1/files/%00/content", {400, 404}),
        ("/v1/models/..%2f..%2fetc%2fpasswd", {404}),
        ("/v1/models/%00", {400, 404}),
        ("/v1/jobs?after=%00", {400}),
        ("/v1/jobs?limit=1e3", {400}),
        ("/v1/jobs?status=%00", {400}),
        ("/v1/jobs?metadata=%00%3D%00", {400}),
        ("/v1/jobs?metadata=none", {400}),
        ("/v1/jobs?text=%00", {400}),
        ("/v1/jobs?text=", {400}),
        ("/v1/jobs?text=" + "x" * 201, {400}),
        ("/v1/jobs?metadata[]=x", {400}),
        ("/v1/jobs?metadata[a%22b]=x", {400}),
        ("/v1/jobs?metadata[a\\]=x", {200}),
        ("/v1/jobs?metadata[a.b[0]]=x", {200}),
        ("/v1/jobs?metadata[']=x", {200}),
        ("/v1/jobs?" + "&".join(f"metadata[k{n}]=v" for n in range(17)), {400}),
        ("/v1/jobs/x/events?after=ftevent-x-1", {404}),
    ],
)
def test_malformed_paths_and_queries_are_client_errors(
    gateway: GatewayClient, path: str, statuses: set[int]
) -> None:
    assert gateway.http.get(path).status_code in statuses


def test_the_gateway_still_works_after_hostile_input(gateway: GatewayClient) -> None:
    labels = {"metadata[suite]": "mine"}
    jobs = gateway.http.get("/v1/jobs", params=labels).json()["data"]
    files = gateway.http.get("/v1/files").json()["data"]

    assert len(jobs) == 1
    assert gateway.http.delete(f"/v1/files/{files[0]['id']}").status_code == 409
    kept = create(gateway, argument('{"a": [1, {"b": "\\\\u0000"}]}'))
    assert kept.status_code == 200, kept.text
