"""Which jobs read an uploaded file."""

import json

from sqlalchemy import ColumnElement, Text, cast

from services.core.db.tables import JobRow


def names_file(file_id: str) -> ColumnElement[bool]:
    """Whether the request of a job names a file.

    The whole request is searched for the ID, because a list of the fields that name files would
    lack one some day. A request that only mentions the ID, as in its metadata, counts too: a file
    is then kept for longer, never deleted under a job that reads it.
    """
    return cast(JobRow.request, Text).contains(json.dumps(file_id), autoescape=True)
