"""How indexes look to a person."""

from services.contracts.indexes import IndexSummary
from temper.cli.formats import age, size

INDEX_COLUMNS = ("NAME", "MODE", "DOCUMENTS", "SIZE", "AGE", "PROBLEM")


def index_row(index: IndexSummary) -> tuple[str, ...]:
    """Return the cells of an index in a list."""
    return (
        index.name,
        index.mode.value if index.mode else "",
        f"{index.documents:,}",
        size(index.bytes_on_disk),
        age(index.created_at) if index.created_at else "",
        index.problem or "",
    )


def index_fields(index: IndexSummary) -> dict[str, str | None]:
    """Return what a person wants to know of one index, by name."""
    return {
        "name": index.name,
        "version": index.version,
        "mode": index.mode.value if index.mode else None,
        "documents": f"{index.documents:,}",
        "size": size(index.bytes_on_disk),
        "language": index.language,
        "encoder": index.encoder,
        "dimension": str(index.dimension) if index.dimension else None,
        "dense": index.dense.value if index.dense else None,
        "created": age(index.created_at),
        "problem": index.problem,
    }
