"""Problems of a request are located by paths in the request."""

from typing import Annotated, Literal, Self

import pytest
from fastapi import APIRouter, Body, FastAPI, Query
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from services.contracts.validation import AtField
from services.core.web.errors import install_error_handlers


class Circle(BaseModel):
    """A shape."""

    type: Literal["circle"]
    radius: float = Field(gt=0)


class Square(BaseModel):
    """Another shape."""

    type: Literal["square"]
    side: float
    square: int = 1


class Pen(BaseModel):
    """What is drawn with."""

    model_config = ConfigDict(extra="forbid")

    width: float = 1
    tip: float = 1

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tip > self.width:
            raise AtField("tip", "tip is wider than width")
        return self


class Brush(BaseModel):
    """Another tool, told from a pen by its kind."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["brush"]
    hairs: int = 1


class Chalk(BaseModel):
    """One more."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["chalk"]
    grain: int = 1


class Drawing(BaseModel):
    """What the route takes."""

    model_config = ConfigDict(extra="forbid")

    shape: Annotated[Circle | Square, Field(discriminator="type")]
    scale: Annotated[float, Field(gt=0)] | Literal["auto"] = "auto"
    tags: list[str] = []
    labels: dict[str, int] = {}
    owner: str | Square | None = None
    pens: list[Pen] | None = None
    named: dict[str, Pen] = {}
    tool: Annotated[Brush | Chalk, Field(discriminator="kind")] | None = None
    either: str | Pen = ""

    @field_validator("tags")
    @classmethod
    def _at_most_two(cls, tags: list[str]) -> list[str]:
        if len(tags) > 2:
            raise ValueError("has too many")
        return tags


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    install_error_handlers(app)

    router = APIRouter(prefix="/drawings")

    @router.post("")
    def draw(
        drawing: Annotated[Drawing, Body()], limit: Annotated[int, Query(ge=1)] = 1
    ) -> Drawing:
        return drawing

    app.include_router(router)
    return TestClient(app)


CIRCLE = {"type": "circle", "radius": 1}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "shape"),
        ({"shape": {"type": "circle"}}, "shape.radius"),
        ({"shape": {"type": "circle", "radius": 0}}, "shape.radius"),
        # A field with the name of the tag.
        ({"shape": {"type": "square", "square": 1, "side": "x"}}, "shape.side"),
        ({"shape": {"type": "square", "square": "x", "side": 1}}, "shape.square"),
        ({"shape": {"type": "oval"}}, "shape"),
        ({"shape": {}}, "shape"),
        ({"shape": CIRCLE, "scale": "big"}, "scale"),
        ({"shape": CIRCLE, "scale": -1}, "scale"),
        ({"shape": CIRCLE, "tags": ["a", 1]}, "tags[1]"),
        ({"shape": CIRCLE, "tags": ["a", "b", "c"]}, "tags"),
        ({"shape": CIRCLE, "labels": {"a.b": "x"}}, "labels.a.b"),
        ({"shape": CIRCLE, "owner": {"type": "square", "side": "x"}}, "owner"),
        ({"shape": CIRCLE, "color": 1}, "color"),
        ([], None),
        (None, None),
        ("text", None),
    ],
)
def test_a_problem_in_the_body_is_named_by_its_path(
    client: TestClient, body: object, param: str | None
) -> None:
    answer = client.post("/drawings", json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_problem_in_the_query_is_named(client: TestClient) -> None:
    answer = client.post("/drawings?limit=0", json={"shape": CIRCLE})

    assert answer.json()["error"]["param"] == "limit"


def test_a_validators_message_is_unchanged(client: TestClient) -> None:
    answer = client.post("/drawings", json={"shape": CIRCLE, "tags": ["a", "b", "c"]})

    assert answer.json()["error"]["message"] == "tags: has too many"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"sclae": 1}, "sclae: is not a field of this request; did you mean scale?"),
        ({"color": 1}, "color: is not a field of this request"),
        (
            {"pens": [{}, {"widht": 1}]},
            "pens[1].widht: is not a field of this request; did you mean width?",
        ),
        (
            {"named": {"pens": {"widht": 1}}},
            "named.pens.widht: is not a field of this request; did you mean width?",
        ),
        (
            {"tool": {"kind": "brush", "hair": 1}},
            "tool.hair: is not a field of this request; did you mean hairs?",
        ),
        ({"tool": {"kind": "brush", "grains": 1}}, "tool.grains: is not a field of this request"),
    ],
)
def test_an_unknown_field_suggests_the_closest_one(
    client: TestClient, body: dict[str, object], message: str
) -> None:
    answer = client.post("/drawings", json={"shape": CIRCLE, **body})

    assert answer.json()["error"]["message"] == message


def test_the_closest_field_is_found_in_unions(client: TestClient) -> None:
    answer = client.post("/drawings", json={"shape": CIRCLE, "either": {"widht": 1}})

    messages = [item["message"] for item in answer.json()["error"]["details"]]
    assert "is not a field of this request; did you mean width?" in messages


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"pens": [{}, {"width": 0.5}]}, "pens[1].tip"),
        ({"named": {"thin": {"tip": 2}}}, "named.thin.tip"),
        ({"either": {"tip": 2}}, "either.tip"),
    ],
)
def test_a_validator_of_several_fields_names_one_given_or_not(
    client: TestClient, body: dict[str, object], param: str
) -> None:
    error = client.post("/drawings", json={"shape": CIRCLE, **body}).json()["error"]

    assert error["param"] == param  # a union's other members come later
    assert error["message"].startswith(f"{param}: tip is wider than width")


def test_a_misspelled_field_comes_before_the_missing_one(client: TestClient) -> None:
    error = client.post("/drawings", json={"shap": CIRCLE}).json()["error"]

    assert error["param"] == "shap"
    assert error["message"] == (
        "shap: is not a field of this request; did you mean shape? (and 1 more)"
    )


def test_further_problems_are_counted_and_listed_up_to_a_limit(client: TestClient) -> None:
    few = client.post("/drawings", json={"shape": {"type": "circle"}, "a": 1, "b": 2}).json()
    many = client.post("/drawings", json={str(n): n for n in range(500)}).json()

    assert few["error"]["message"] == "shape.radius: Field required (and 2 more)"
    assert [item["param"] for item in few["error"]["details"]] == ["shape.radius", "a", "b"]
    assert many["error"]["message"].endswith("(and 500 more)")
    assert len(many["error"]["details"]) == 20


@pytest.mark.parametrize(
    ("content", "type_", "message"),
    [
        (b"{", "application/json", "the body is not JSON: "),
        (b"{}", "text/plain", "send a JSON object, with Content-Type: application/json"),
        (b"", "application/json", "send a JSON object, with Content-Type: application/json"),
        (b"[]", "application/json", "send a JSON object, with Content-Type: application/json"),
    ],
)
def test_a_non_object_body_error_says_what_to_send(
    client: TestClient, content: bytes, type_: str, message: str
) -> None:
    answer = client.post("/drawings", content=content, headers={"Content-Type": type_})

    assert answer.json()["error"]["message"].startswith(message)
