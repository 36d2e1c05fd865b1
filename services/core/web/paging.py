"""Parameters and bodies of lists."""

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from fastapi import Query

from services.contracts.base import MAX_LIMIT, Page

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items of one page.")]
After = Annotated[str | None, Query(max_length=300, description="The last id of the page before.")]


class HasId(Protocol):
    """What lists are made of."""

    id: str


Item = TypeVar("Item", bound=HasId)


# The annotation is text because pydantic cannot build a page of a protocol at run time.
def page_of(items: Sequence[Item], has_more: bool) -> "Page[Item]":
    """A page with the ids that the next request needs."""
    return Page(
        data=list(items),
        has_more=has_more,
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
    )
