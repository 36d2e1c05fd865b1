"""Which jobs read an uploaded file."""

from sqlalchemy import ColumnElement, or_

from services.core.db.tables import JobRow

_ONE = ("training_file", "validation_file", "file", "input_file_id")
_SEVERAL = ("training_files", "validation_files", "datasets")


def names_file(file_id: str) -> ColumnElement[bool]:
    """Whether the request of a job names a file."""
    return or_(
        *(JobRow.request[field].as_string() == file_id for field in _ONE),
        *(
            JobRow.request[field].as_string().contains(f'"{file_id}"', autoescape=True)
            for field in _SEVERAL
        ),
    )
