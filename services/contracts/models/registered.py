"""The model registry."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AnyHttpUrl, Field, StringConstraints, model_validator

from services.contracts.base import JsonObject, Request, Resource
from services.contracts.origins import origin_of
from services.contracts.validation import AtField

ModelId = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", min_length=1, max_length=200)
]
HubName = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$", max_length=200
    ),
]
"""A model hub repository: ``name`` or ``owner/name``."""


Suffix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
"""The part of a trained model's name that its client chooses."""


class ModelKind(StrEnum):
    """How a model's weights are stored."""

    FULL = "full"
    ADAPTER = "adapter"
    GGUF = "gguf"
    """A llama.cpp file: a merge converts it into a model that can be loaded."""


class RegisterModel(Request):
    """Register a model: a folder below the operator's model root, or a hub repository."""

    id: ModelId = Field(description="Name for the model, which jobs use.")
    folder: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None,
        description="Path relative to the operator's model root: a folder, or a GGUF file.",
    )
    hub_id: HubName | None = Field(
        default=None,
        description="Repository of the hub, downloaded when first used or by a download job.",
    )
    revision: Annotated[str, StringConstraints(pattern=r"^[\w./-]{1,100}$")] | None = Field(
        default=None,
        description="Branch, tag or commit of the hub repository; null: its default branch.",
    )
    base: ModelId | None = Field(
        default=None, description="Registered model that an adapter folder belongs to."
    )

    @model_validator(mode="after")
    def _one_source(self) -> "RegisterModel":
        if (self.folder is None) == (self.hub_id is None):
            raise AtField("folder", "give exactly one of folder and hub_id")
        if self.revision is not None and (".." in self.revision or self.revision[0] == "/"):
            raise AtField("revision", "revision must not contain '..' or begin with '/'")
        if self.revision is not None and self.hub_id is None:
            raise AtField("revision", "revision belongs to hub_id")
        return self


class ModelFolder(Resource):
    """A folder below the operator's model root, as a candidate for registration."""

    id: str = Field(description="Path relative to the model root, for `folder` of a registration.")
    object: Literal["model_folder"] = "model_folder"
    kind: ModelKind | None = Field(
        description="Kind of model; null: the folder cannot be registered."
    )
    bytes: int = Field(description="Size of the files in the folder.")
    problem: str | None = Field(
        default=None,
        description="Reason why the folder cannot be registered; null without one.",
    )
    models: list[str] = Field(description="Models that are registered from it.")


class DataFile(Resource):
    """A file that a model was trained or validated on.

    ``file`` is a file id or a GGUF file, with the ``sha256`` of its content, or else a dataset of a
    hub or a dataset script.
    """

    file: str = Field(description="File id, GGUF file, dataset of the hub, or dataset script.")
    sha256: str | None = Field(
        default=None,
        description="Hex SHA-256 of the content; null for a dataset of the hub and a dataset "
        "script.",
    )
    num_samples: int | None = Field(default=None, description="Number of rows drawn; null: all.")


class Lineage(Resource):
    """Provenance of a trained model, sufficient to train it again.

    A merged model has the ``parent`` that was merged and the data and arguments of its training,
    if that was trained here.
    """

    job_id: str = Field(description="Id of the job that made the model.")
    parent: str = Field(description="Name of the model that was trained or merged.")
    merged: bool = Field(
        default=False, description="Whether the model was merged from the parent, not trained."
    )
    training_file: str | None = Field(default=None, description="Training file; null without one.")
    training_file_sha256: str | None = Field(
        default=None,
        description="Hex SHA-256 of the training file; null unless it is an uploaded one.",
    )
    validation_file: str | None = Field(
        default=None, description="Validation file; null without one."
    )
    files: dict[str, DataFile] = Field(
        default_factory=dict,
        description="Data files by the request field that names them, as training_files.1.file.",
    )
    mixing: JsonObject | None = Field(
        default=None, description="Settings with which several training files were mixed."
    )
    seed: int | None = Field(default=None, description="Seed of the training; null without one.")
    arguments: JsonObject = Field(
        default_factory=dict, description="Arguments of the training library."
    )
    stop_token_ids: list[int] = Field(
        default_factory=list, description="Tokens that end a response, as trained."
    )
    needs_merge: bool = Field(
        default=False,
        description="Whether the adapter changes more weights than engines can apply.",
    )
    library_versions: dict[str, str] = Field(description="Versions of the libraries, by package.")


class Model(Resource):
    """A model that jobs can name. Adapters have the ``base`` that they belong to."""

    id: str = Field(description="Name of the model, which jobs use.")
    object: Literal["model"] = "model"
    created: int = Field(description="Time of the registration, in Unix seconds.")
    owned_by: str = Field(description="Owner of the model in OpenAI's format.")
    kind: ModelKind = Field(description="Form of the weights: full, adapter or gguf.")
    base: str | None = Field(
        default=None, description="Base model that an adapter belongs to; null for other models."
    )
    folder: str | None = Field(
        default=None,
        description="Path relative to the operator's model root; null for models of the hub and "
        "of jobs.",
    )
    hub_id: str | None = Field(default=None, description="Repository of the hub; null for others.")
    revision: str | None = Field(
        default=None, description="Revision of the hub repository; null: its default."
    )
    lineage: Lineage | None = Field(
        default=None,
        description="Provenance of a trained or merged model; null for others and for checkpoints.",
    )


class RemoteModel(Request):
    """A model behind an OpenAI-compatible URL whose origin the operator allows."""

    base_url: AnyHttpUrl = Field(
        description="Base URL of an OpenAI-compatible server, up to and including /v1."
    )
    model: str = Field(min_length=1, max_length=200, description="Name of the model at its server.")

    @property
    def origin(self) -> str:
        """Scheme, host and port: what the operator allows, and what a key belongs to."""
        return origin_of(self.base_url)
