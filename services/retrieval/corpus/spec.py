"""The specification of a corpus validation; without numpy, as the worker writes it."""

from services.core.artifacts import SourceFile
from services.datasets.validate import ValidationSpec


class CorpusFileSpec(ValidationSpec):
    """The corpus of an indexing job, and the language of its analyzer."""

    file: SourceFile
    language: str | None
