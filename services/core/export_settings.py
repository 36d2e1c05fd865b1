"""Where models may be exported, as gateway and workers read it."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from services.contracts.models.jobs import AllowedPlace
from services.core.settings import ProcessSettings, split_commas


class ExportSettings(ProcessSettings):
    """What the operator allows."""

    export_destinations: Annotated[list[AllowedPlace], NoDecode, BeforeValidator(split_commas)] = (
        Field(
            default=[],
            description="Where models may be exported, comma-separated: folders, hf://owner, and "
            "other URLs of fsspec's such as s3://bucket; everything below these is allowed too.",
        )
    )
