"""A request for a response, and the chat completion that each of its turns asks for."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from services.contracts.base import JsonObject, Metadata, Number
from services.contracts.errors import InvalidRequest
from services.datasets.record import shown
from services.dialects.fields import text_field, wrong
from services.parsing.foreign_json import storable_json

REFUSED = {
    "conversation": "is not supported: continue with previous_response_id",
    "prompt": "is not supported: stored prompts are OpenAI's",
}


class CreateResponse(BaseModel):
    """A request in OpenAI's format. Fields that would change nothing here are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, defer_build=True)

    model: Annotated[
        str, Field(min_length=1, max_length=300, description="Name of a served model.")
    ]
    input: str | list[JsonObject] = Field(
        default=[], description="Text of the user, or messages, calls and their results."
    )
    instructions: str | None = Field(
        default=None, description="System message, which is not passed on to a later response."
    )
    previous_response_id: Annotated[str, Field(max_length=64)] | None = Field(
        default=None,
        description="Id of the stored response to continue; null: a new conversation.",
    )
    store: bool | None = Field(
        default=True, description="Whether to keep the response for later requests."
    )
    stream: bool | None = Field(
        default=False, description="Whether to answer as server-sent events."
    )
    background: bool | None = Field(
        default=False,
        description="Whether to answer at once with a response that is retrieved later.",
    )
    metadata: Metadata | None = Field(
        default=None, description="Labels of the response: up to 16 pairs of strings; null: none."
    )
    max_output_tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Maximum tokens of all turns together; null: the server's limit."
    )
    max_tool_calls: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Maximum calls of the server's tools; a further one ends the response. Null: "
        "no limit of its own.",
    )
    temperature: Annotated[Number, Field(ge=0.0, le=2.0)] | None = Field(
        default=None, description="Sampling temperature; null: the model's."
    )
    top_p: Annotated[Number, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Nucleus sampling: share of the probability mass; null: the model's.",
    )
    tools: list[JsonObject] | None = Field(
        default=None, description="Functions of the caller, and tools that the server runs."
    )
    tool_choice: str | JsonObject | None = Field(
        default=None, description="Choice of calls: auto, none, required, or one function."
    )
    parallel_tool_calls: bool | None = Field(
        default=None, description="Whether a turn may have several calls; null: it may."
    )
    text: JsonObject | None = Field(
        default=None, description="Format of the answer: text, JSON, or a JSON schema."
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        default=None,
        description="Truncation of the conversation; must be disabled: it is never cut silently.",
    )
    conversation: Any = Field(
        default=None, description="Unsupported field of OpenAI's API; refused."
    )
    prompt: Any = Field(default=None, description="Unsupported field of OpenAI's API; refused.")

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        # What is accepted here must be stored, shown again, and sent to engines.
        return storable_json(value)

    def check(self) -> None:
        """Raise `InvalidRequest` for what cannot be done."""
        for name, why in REFUSED.items():
            if getattr(self, name) is not None:
                raise InvalidRequest(why, param=name)
        if self.truncation == "auto":
            raise InvalidRequest("is auto: a conversation is never cut here", param="truncation")
        if self.background and self.store is False:
            raise InvalidRequest("must be true for a background response", param="store")
        if not self.input and self.previous_response_id is None:
            raise InvalidRequest("must have at least one message", param="input")
        options_of(self)

    def stored(self) -> JsonObject:
        """What is kept of the request beside its input."""
        return self.model_dump(
            mode="json",
            exclude={"input", "background", "stream", "conversation", "prompt"},
            exclude_none=True,
        )


def options_of(request: CreateResponse) -> JsonObject:
    """The fields of a chat completion beside its conversation, tools and length."""
    chat: JsonObject = {"model": request.model}
    for name in ("temperature", "top_p", "parallel_tool_calls"):
        if getattr(request, name) is not None:
            chat[name] = getattr(request, name)
    if request.tools and request.tool_choice is not None:
        chat["tool_choice"] = _choice(request.tool_choice)
    described = (request.text or {}).get("format")
    if described is not None:
        chat |= _format(described)
    return chat


def _choice(choice: str | JsonObject) -> str | JsonObject:
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            known = "auto, none, required"
            raise InvalidRequest(f"is {shown(choice)}, not one of {known}", param="tool_choice")
        return choice
    if choice.get("type") != "function":
        kind = shown(choice.get("type"))
        raise InvalidRequest(f"is {kind}, not function", param="tool_choice.type")
    return {"type": "function", "function": {"name": text_field(choice, "name", "tool_choice")}}


def _format(described: Any) -> JsonObject:
    if not isinstance(described, dict):
        raise wrong("text.format", described, "an object")
    match described.get("type"):
        case "text":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "json_schema":
            if not isinstance(described.get("schema"), dict):
                raise wrong("text.format.schema", described.get("schema"), "an object")
            schema = {"name": described.get("name") or "answer", "schema": described["schema"]}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case other:
            known = "text, json_object, json_schema"
            raise InvalidRequest(f"is {shown(other)}, not one of {known}", param="text.format.type")
