"""Paginated lists."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

from services.contracts.base import MAX_LIMIT, Page
from temper.client.transport import Query, Transport


class Identified(Protocol):
    """An item of a page; the id of the last one is the cursor of the next page."""

    @property
    def id(self) -> str:
        """The item's identifier."""
        ...


Item = TypeVar("Item", bound=Identified)
# Annotations with Page[Item] are quoted: pydantic could not build a schema for the protocol.


def page(
    transport: Transport, path: str, into: "type[Page[Item]]", query: Query, most: int
) -> "Page[Item]":
    """Return up to ``most`` items as one page, in as many requests as needed."""
    items: list[Item] = []
    after: dict[str, str] = {}
    has_more = True
    while has_more and len(items) < most:
        limit = min(most - len(items), MAX_LIMIT)
        answer = transport.get(path, into, {**query, **after, "limit": limit})
        items.extend(answer.data)
        last = _last(answer)
        has_more = answer.has_more and last is not None
        after = {} if last is None else {"after": last}
    return into(
        data=items,
        has_more=has_more,
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
    )


def every(
    transport: Transport, path: str, into: "type[Page[Item]]", query: Query
) -> Iterator[Item]:
    """Yield every item, requesting pages on demand."""
    after: dict[str, str] = {}
    while True:
        answer = transport.get(path, into, {**query, **after, "limit": MAX_LIMIT})
        yield from answer.data
        last = _last(answer)
        if not answer.has_more or last is None:
            return
        after = {"after": last}


def _last(page: "Page[Item]") -> str | None:
    """Return the cursor of the next page; a page of a search may be empty."""
    return page.last_id or (page.data[-1].id if page.data else None)
