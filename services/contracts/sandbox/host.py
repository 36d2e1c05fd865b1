"""/v1/languages and /v1/isolation: what a sandbox can run, and how it isolates programs."""

from pydantic import Field

from services.contracts.base import Resource
from services.contracts.sandbox.programs import Language


class LanguageStatus(Resource):
    """Whether a language works on this host."""

    language: Language
    available: bool
    version: str | None = None
    message: str = Field(
        default="", description="Explanation of what is missing, and how to install it."
    )


class LanguageList(Resource):
    """All supported languages."""

    languages: list[LanguageStatus]


class IsolationMeasure(Resource):
    """One isolation measure: how it is enforced, or why not."""

    name: str
    enforced: bool
    description: str


class IsolationReport(Resource):
    """How programs are isolated from each other, from the service and from the host."""

    tier: str = Field(
        description="Isolation tier, full or container: the strongest that works here."
    )
    minimum_tier: str = Field(description="Weakest isolation tier with which the service starts.")
    not_stronger: str = Field(
        description="Reason why no stronger tier was chosen; empty for the strongest."
    )
    landlock_abi: int
    measures: list[IsolationMeasure]
