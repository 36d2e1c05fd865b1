"""The dataset registry."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from services.contracts.base import Deleted, Page
from temper.client.transport import Transport

if TYPE_CHECKING:
    from services.contracts.data.datasets import Dataset, RegisterDataset

PATH = "/v1/datasets"


class Datasets:
    """/v1/datasets."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def register(self, request: RegisterDataset) -> Dataset:
        """Register an uploaded file under a name."""
        from services.contracts.data.datasets import Dataset

        return self._transport.post(PATH, Dataset, request)

    def list(self) -> list[Dataset]:
        """Return all datasets by name."""
        from services.contracts.data.datasets import Dataset

        return self._transport.get(PATH, Page[Dataset]).data

    def get(self, name: str, model: str | None = None) -> Dataset:
        """Return a dataset; with a model, tokens are counted by its tokenizer."""
        from services.contracts.data.datasets import Dataset

        query = {} if model is None else {"model": model}
        return self._transport.get(f"{PATH}/{quote(name, safe='')}", Dataset, query)

    def delete(self, name: str) -> Deleted:
        """Unregister a dataset; its file stays."""
        return self._transport.delete(f"{PATH}/{quote(name, safe='')}", Deleted)
