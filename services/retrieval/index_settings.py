"""Where indexes lie: a setting of whatever builds or serves them."""

from pathlib import Path

from pydantic import Field

from services.core.settings import Folder, ProcessSettings


class IndexSettings(ProcessSettings):
    """What building an index and serving it both need to know."""

    retrieval_indexes: Folder | None = Field(
        default=None, description="Folder of the search indexes; null: home/indexes."
    )

    @property
    def indexes_folder(self) -> Path:
        """The folder of all indexes."""
        return self.retrieval_indexes or self.home / "indexes"
