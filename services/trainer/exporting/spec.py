"""The spec of the exporting child, ``spec.json``, and the credentials beside it."""

from collections.abc import MutableMapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from services.contracts.base import JsonObject
from services.contracts.models.jobs import Destination

SPEC = "spec.json"
VARIABLE = "TEMPER_EXPORT_CREDENTIALS"


class ExportSpec(BaseModel):
    """What to export, and where.

    ``base`` is what an adapter names as its base; ``about`` is the model as the registry shows it.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    job_id: str
    folder: Path
    destination: Destination
    base: str | None
    about: JsonObject


class Credentials(BaseModel):
    """Keys of hubs and stores. They travel in the child's environment, never in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    hub_token: str | None = Field(default=None, repr=False)
    options: dict[str, JsonValue] = Field(default_factory=dict, repr=False)

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str]) -> "Credentials":
        """Read and remove what the worker passed."""
        text = environ.pop(VARIABLE, None)
        return cls() if text is None else cls.model_validate_json(text)

    def variables(self) -> dict[str, str]:
        """Environment variables of a child, for `take_from` there."""
        return {VARIABLE: self.model_dump_json()}

    def hide_in(self, text: str) -> str:
        """Redact the keys in a library's text, for logs and messages."""
        for secret in sorted(_texts([self.hub_token, self.options]), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def _texts(value: JsonValue) -> list[str]:
    match value:
        case str():
            return [value] if value else []
        case list():
            return [text for item in value for text in _texts(item)]
        case dict():
            return [text for item in value.values() for text in _texts(item)]
        case _:
            return []
