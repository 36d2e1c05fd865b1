"""Lists, as OpenAI pages them."""

from typing import Generic, Literal, TypeVar

from services.contracts.base import Resource

Item = TypeVar("Item")

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


class Page(Resource, Generic[Item]):
    """One page; the next one is asked for with ``after=<last_id>``."""

    object: Literal["list"] = "list"
    data: list[Item]
    has_more: bool = False
    first_id: str | None = None
    last_id: str | None = None


class Deleted(Resource):
    """The answer to a DELETE."""

    id: str
    object: str
    deleted: bool = True
