"""Responses match the OpenAPI description for any request."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.schemas import OpenApiSchema

from services.core.web.auth import hash_key
from tests.support.openapi import check_answers, operations
from tests.support.sandbox import Sandbox, running_sandbox

KEY = "temper-openapi"
HEADERS = {"Authorization": f"Bearer {KEY}"}
EXAMPLES = 20
PATHS = ("/run_code", "/v1/run_code/stream", "/v1/run_cases", "/v1/languages", "/v1/isolation")


@dataclass(frozen=True)
class Described:
    """A sandbox that requires a key, and its OpenAPI description."""

    sandbox: Sandbox
    document: dict[str, Any]

    def api(self, mode: GenerationMode) -> OpenApiSchema:
        """The description, restricted to requests that are quick to run."""
        document = deepcopy(self.document)
        for body in _bodies(document):
            _avoid_slow_requests(body["schema"]["properties"], mode)
        api = schemathesis.openapi.from_dict(document)
        # Parameters that a route does not know are ignored.
        api.config.generation.update(with_security_parameters=False, allow_extra_parameters=False)
        return api


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    folder = tmp_path_factory.mktemp("openapi")
    with running_sandbox(folder, TEMPER_API_KEY_HASHES=hash_key(KEY)) as sandbox:
        # The first request for languages takes longer than the generated ones may.
        sandbox.http.get("/v1/languages", headers=HEADERS, timeout=240).raise_for_status()
        yield Described(sandbox, sandbox.http.get("/openapi.json").json())
    assert "Traceback" not in Path(folder / "sandbox.log").read_text()


def _bodies(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in PATHS:
        for operation in document["paths"][path].values():
            if "requestBody" in operation:
                yield operation["requestBody"]["content"]["application/json"]


def _avoid_slow_requests(fields: dict[str, Any], mode: GenerationMode) -> None:
    """Restrict requests to languages without a compiler, and to few cases."""
    fields["language"]["enum"] = ["python", "bash"]
    if "cases" in fields and mode is GenerationMode.POSITIVE:
        fields["cases"]["maxItems"] = 3


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_response_matches_openapi(
    described: Described, mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    for operation in operations(described.api(mode)):
        if operation.path not in PATHS:
            continue
        if mode is GenerationMode.NEGATIVE and not operation.body:
            continue  # there is nothing to send
        with subtests.test(operation.label):
            check_answers(operation, mode, described.sandbox.url, HEADERS, examples=EXAMPLES)


def test_every_openapi_example_works(described: Described) -> None:
    document = described.sandbox.http.get("/openapi.json").json()
    for path in PATHS:
        for operation in document["paths"][path].values():
            content = operation.get("requestBody", {"content": {"application/json": {}}})
            for example in content["content"]["application/json"].get("examples", {}).values():
                answer = described.sandbox.http.post(path, json=example["value"], headers=HEADERS)
                assert answer.status_code == 200, answer.text
                assert '"Success"' in answer.text
