"""What a sandbox can run, and how it keeps programs apart: /v1/languages and /v1/isolation."""

from pydantic import Field

from services.contracts.base import Resource
from services.contracts.sandbox import Language


class LanguageStatus(Resource):
    """Whether a language works on this host."""

    language: Language
    available: bool
    version: str | None = None
    message: str = Field(default="", description="What is missing, and how to add it.")


class LanguageList(Resource):
    """Every language that can be asked for."""

    languages: list[LanguageStatus]


class IsolationMeasure(Resource):
    """One thing that programs are kept from: how, or why not."""

    name: str
    enforced: bool
    description: str


class IsolationReport(Resource):
    """How programs are kept apart from each other, from the service and from the host."""

    tier: str = Field(description="full, or container: the strongest that works here.")
    minimum_tier: str = Field(description="With a weaker one the service would not have started.")
    not_stronger: str = Field(description="Why no stronger tier was taken; empty at the strongest.")
    landlock_abi: int
    measures: list[IsolationMeasure]
