"""Bodies parsed by hand: precise errors, tolerance for text that models write."""

import asyncio
import json
from typing import Annotated

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, FailFast, Field
from starlette.types import Message

from services.contracts.errors import InvalidRequest, Unprocessable
from services.core.web.errors import install_error_handlers
from services.core.web.json_body import documented_body, parse_body, read_body


class Song(BaseModel):
    """A body."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    title: str
    seconds: float = 1.0
    verses: Annotated[list[str], FailFast(), Field(max_length=3)] = []


def written(text: str) -> bytes:
    return b'{"title": "' + text.encode() + b'"}'


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_a_body_is_parsed(title: str, seconds: float, ascii_only: bool) -> None:
    body = json.dumps({"title": title, "seconds": seconds, "other": [1]}, ensure_ascii=ascii_only)

    assert parse_body(body.encode(), Song) == Song(title=title, seconds=seconds)


def test_a_disconnect_during_the_body_is_an_invalid_request() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(InvalidRequest):
        asyncio.run(read_body(request, Song))


HALVES = st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010)


@given(st.text(st.one_of(HALVES, st.characters(), st.sampled_from('\\"\0'))))
def test_lone_surrogates_are_accepted(title: str) -> None:
    song = parse_body(json.dumps({"title": title}).encode(), Song)

    whole = title.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert song.title == whole
    song.title.encode()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (r"a\ud800b", "a\ufffdb"),
        (r"\udc00\ud800", "\ufffd\ufffd"),
        (r"\ud83d\ude00 \ud83d", "\U0001f600 \ufffd"),
        (r"\\ud800", r"\ud800"),
        (r"\u0000", "\0"),
    ],
)
def test_a_lone_surrogate_becomes_the_replacement_character(text: str, title: str) -> None:
    assert parse_body(written(text), Song).title == title


def test_a_lone_surrogate_encoded_in_utf8_is_accepted() -> None:
    body = '{"title": "a\ud800"}'.encode("utf-8", "surrogatepass")

    assert parse_body(body, Song).title == "a\ufffd"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'"\xff"',
        written("\n"),
        b'{"title": "' + b"\xff" + b'"}',
        b"[" * 100_000,
        b'{"title": "\\ud800", "seconds": ' + b"9" * 5000 + b"}",
        b"[]",
        b"null",
        b'{"title": 1}',
        b'{"title": "a", "seconds": NaN}',
        b'{"title": "\\ud800", "seconds": NaN}',
        b'{"title": "a", "seconds": 1e999}',
        b'{"title": "a", "verses": ["", "", "", ""]}',
        b'{"\\ud800": 1}',
        b'{"title": "' + b"a" * (2 << 20) + b'", "verses": [' + b"[]," * 300_000 + b"[]]}",
        b'{"title": "a", "other": [' + b"1," * 1_000_000 + b"1]}",
        b"[" * (2 << 20),
        b'"' * (2 << 20),
    ],
    ids=range(19),
)
def test_other_invalid_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(Unprocessable) as refusal:
        parse_body(body, Song)

    assert len(refusal.value.message) < 500


@pytest.mark.parametrize("part", ['a,"b\\', '\\"', '\\\\",[{', '",', "[1,2],\n"])
def test_a_long_string_counts_as_one_value(part: str) -> None:
    text = part * 500_000

    assert parse_body(json.dumps({"title": text}).encode(), Song).title == text


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    install_error_handlers(app)

    @app.post("/songs", openapi_extra=documented_body(Album, {}))
    async def sing(request: Request) -> Song:
        return await read_body(request, Song)

    return TestClient(app)


class Album(BaseModel):
    """A body with another in it."""

    songs: list[Song]


def test_an_invalid_field_is_named_in_a_422(client: TestClient) -> None:
    answer = client.post("/songs", json={"title": "a", "seconds": "x", "verses": [1]})

    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["param"], error["type"]) == ("seconds", "invalid_request_error")
    assert [problem["param"] for problem in error["details"]] == ["seconds", "verses[0]"]


def test_the_documented_schema_has_no_references(client: TestClient) -> None:
    body = client.get("/openapi.json").json()["paths"]["/songs"]["post"]["requestBody"]

    schema = body["content"]["application/json"]["schema"]
    assert "$ref" not in json.dumps(schema)
    assert schema["properties"]["songs"]["items"]["properties"]["title"]["type"] == "string"
