"""Both query syntaxes for filtering jobs by metadata."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from services.api.jobs.metadata_filter import MetadataFilter
from services.core.web.errors import install_error_handlers


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    install_error_handlers(app)

    @app.get("/filter")
    def show(metadata: MetadataFilter) -> dict[str, str]:
        return metadata

    return TestClient(app)


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("", {}),
        ("metadata[team]=red", {"team": "red"}),
        ("metadata%5Bteam%5D=red&metadata[n]=1", {"team": "red", "n": "1"}),
        ("metadata=team=red", {"team": "red"}),
        ("metadata=team=red&metadata=n=1", {"team": "red", "n": "1"}),
        ("metadata=team=a=b", {"team": "a=b"}),
        ("metadata=team=", {"team": ""}),
        ("metadata[team]=", {"team": ""}),
        ("metadata[a]b]=c", {"a]b": "c"}),
        ("metadata=a=1&metadata[b]=2", {"a": "1", "b": "2"}),
        ("other[a]=1&metadata[a=1", {}),
    ],
)
def test_metadata_filters_are_parsed(client: TestClient, query: str, read: dict[str, str]) -> None:
    assert client.get(f"/filter?{query}").json() == read


@pytest.mark.parametrize(
    "query",
    [
        "metadata=team",
        "metadata==red",
        "metadata=",
        "metadata[]=x",
        "metadata[a%22]=x",
        "&".join(f"metadata[k{n}]=v" for n in range(17)),
    ],
)
def test_malformed_metadata_filters_are_rejected(client: TestClient, query: str) -> None:
    answer = client.get(f"/filter?{query}")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "metadata"
