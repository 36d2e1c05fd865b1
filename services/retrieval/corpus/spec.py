"""The spec of a corpus's validation."""

from services.core.artifacts import SourceFile
from services.datasets.validate import ValidationSpec


class CorpusFileSpec(ValidationSpec):
    """The corpus of an indexing job, and the language of its words."""

    file: SourceFile
    language: str | None
