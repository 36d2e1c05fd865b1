"""Base classes of all wire types, and pages of lists as in the OpenAI API."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_METADATA_PAIRS = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 512


def _describe_tags(schema: dict[str, Any]) -> None:
    """Describe the fields ``type`` and ``object`` that have one value: it names the type
    that they belong to."""
    for name, field in schema.get("properties", {}).items():
        if name in {"type", "object"} and "const" in field:
            field.setdefault("description", f"Type of this object, always `{field['const']}`.")


class Request(BaseModel):
    """A body sent by a client: unknown fields are refused, so that typos are reported."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        defer_build=True,
        json_schema_extra=_describe_tags,
    )


def given_fields(value: BaseModel) -> dict[str, Any]:
    """The fields of a model that were given to it, without those that have their defaults."""
    return {name: getattr(value, name) for name in value.model_fields_set}


class Resource(BaseModel):
    """A body sent by a service: clients ignore unknown fields."""

    model_config = ConfigDict(extra="ignore", defer_build=True, json_schema_extra=_describe_tags)


def _bounded(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > MAX_METADATA_PAIRS:
        raise ValueError(f"has {len(metadata)} pairs; {MAX_METADATA_PAIRS} are allowed")
    for key, value in metadata.items():
        if not key or len(key) > MAX_METADATA_KEY:
            raise ValueError(f"key {key[:80]!r} must have 1 to {MAX_METADATA_KEY} characters")
        if len(value) > MAX_METADATA_VALUE:
            raise ValueError(f"value of {key!r} is longer than {MAX_METADATA_VALUE} characters")
    return metadata


Metadata = Annotated[
    dict[str, str],
    AfterValidator(_bounded),
    Field(description="Labels: up to 16 pairs of strings, by which jobs can be listed."),
]
"""Labels chosen by the client: up to 16 pairs, keys of 64 and values of 512 characters."""

Number = Annotated[float, Field(strict=True)]
"""A number; strings and booleans are rejected."""

JsonObject = dict[str, Any]
"""A JSON object whose schema is not defined here."""


Item = TypeVar("Item")

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


class Page(Resource, Generic[Item]):
    """One page; request the next one with ``after=<last_id>``."""

    object: Literal["list"] = "list"
    data: list[Item] = Field(description="Elements of the page.")
    has_more: bool = Field(default=False, description="Whether there is a further page.")
    first_id: str | None = Field(
        default=None, description="Id of the first element; null for an empty page."
    )
    last_id: str | None = Field(
        default=None,
        description="Id of the last element, from which `after` continues; null for an empty page.",
    )


class Deleted(Resource):
    """The response to a DELETE."""

    id: str = Field(description="Id of what was deleted.")
    object: str = Field(description="Type of what was deleted.")
    deleted: bool = Field(default=True, description="Whether it was deleted; always true.")


class ErrorDetail(Resource):
    """An error: one sentence, OpenAI's error type, the field at fault and a stable code."""

    message: str = Field(description="Description of the error in one sentence.")
    type: str = Field(description="Type of the error in OpenAI's terms.")
    param: str | None = Field(
        default=None, description="Request field at fault, as a dotted path; null: none."
    )
    code: str | None = Field(
        default=None, description="Stable code of the error, for programs; null: none."
    )
    details: list[dict[str, Any]] | None = Field(
        default=None, description="Further findings, such as all invalid fields; null: none."
    )


class ErrorBody(Resource):
    """The body of every response with a status of 400 or more."""

    error: ErrorDetail = Field(description="Error that the response reports.")
