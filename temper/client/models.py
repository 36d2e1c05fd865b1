"""The model registry."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from services.contracts.base import Deleted, Page
from temper.client import pages
from temper.client.errors import ApiError
from temper.client.transport import Transport

if TYPE_CHECKING:
    from services.contracts.models.registered import Model, ModelFolder, RegisterModel

PATH = "/v1/models"
FOLDERS = "/v1/model_folders"


class Models:
    """/v1/models."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def page(self, *, most: int = 20) -> Page[Model]:
        """Return up to ``most`` models."""
        from services.contracts.models.registered import Model

        return pages.page(self._transport, PATH, Page[Model], {}, most)

    def get(self, model_id: str) -> Model:
        """Return a model."""
        from services.contracts.models.registered import Model

        return self._transport.get(_path(model_id), Model)

    def find(self, model_id: str) -> Model | None:
        """Return a model, or None if the name is not registered."""
        try:
            return self.get(model_id)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def folders(self) -> Page[ModelFolder]:
        """Return the folders that may be registered, with what is wrong with the others."""
        from services.contracts.models.registered import ModelFolder

        return self._transport.get(FOLDERS, Page[ModelFolder])

    def register(self, request: RegisterModel) -> Model:
        """Register a model."""
        from services.contracts.models.registered import Model

        return self._transport.post(PATH, Model, request)

    def delete(self, model_id: str) -> Deleted:
        """Unregister a model, and delete the weights of one that a job made."""
        return self._transport.delete(_path(model_id), Deleted)


def _path(model_id: str) -> str:
    return f"{PATH}/{quote(model_id, safe='')}"
