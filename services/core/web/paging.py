"""Parameters and responses of lists."""

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from fastapi import Query

from services.contracts.base import MAX_LIMIT, Page

MAX_NUMBER = 2**53 - 1
"""Largest integer of a parameter: JavaScript's, which every database holds."""
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items per page.")]
After = Annotated[str | None, Query(max_length=300, description="Last id of the previous page.")]


class HasId(Protocol):
    """An item of a list."""

    id: str


Item = TypeVar("Item", bound=HasId)


# Quoted because pydantic cannot build a page of a protocol at run time.
def page_of(items: Sequence[Item], has_more: bool) -> "Page[Item]":
    """A page with the ids for the next request."""
    return Page(
        data=list(items),
        has_more=has_more,
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
    )
