"""The index folder, a setting shared by building and serving."""

from pathlib import Path

from pydantic import Field

from services.core.settings import Folder, ProcessSettings


class IndexSettings(ProcessSettings):
    """Settings shared by the builder and the server."""

    retrieval_indexes: Folder | None = Field(
        default=None, description="Folder of the search indexes; null: home/indexes."
    )

    @property
    def indexes_folder(self) -> Path:
        """The folder of all indexes."""
        return self.retrieval_indexes or self.home / "indexes"
