"""Validation of a batch's input file, before its job queues for a device.

Run as ``python -m services.evaluator.batch.validation JOB_DIR``; see services.datasets.validate.
"""

import sys
from dataclasses import asdict
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.inference_body import check_body
from services.datasets.record import JsonValue, RowError, counted
from services.datasets.validate import FileValidation, validate
from services.evaluator.batch.requests import BatchRequest, parse_request
from services.evaluator.batch.spec import BatchFileSpec


class _FileCheck:
    """Checks row after row; ids are unique, all rows name the model of the first, and no body has
    what the gateway would refuse."""

    def __init__(self, spec: BatchFileSpec) -> None:
        self._spec = spec
        self._ids: set[str] = set()
        self.model: str | None = None

    def check(self, row: JsonValue) -> BatchRequest:
        request = parse_request(row, self._spec.endpoint)
        if request.custom_id in self._ids:
            raise RowError(f"custom_id {request.custom_id[:60]!r} is that of an earlier row")
        if len(self._ids) == self._spec.max_requests:
            raise RowError(f"a batch has at most {counted(len(self._ids), 'request')}")
        try:
            check_body(request.body, self._spec.max_choices)
        except InvalidRequest as error:
            raise RowError(f"body.{error.message}") from None
        self._ids.add(request.custom_id)
        self.model = self.model or request.model
        if request.model != self.model:
            raise RowError(
                f"body.model is {request.model[:60]!r}, but that of the first row is "
                f"{self.model[:60]!r}; a batch asks one model"
            )
        return request


def check_requests(spec: BatchFileSpec, file: FileValidation) -> JsonObject:
    """Check every row."""
    checks = _FileCheck(spec)
    report = file.scan(checks.check, spec.max_errors).run()
    report.raise_errors(file.filename, code="invalid_batch_file", param=file.param)
    file.message(counted(report.rows, "request"), requests=report.rows)
    return {**asdict(report), "model": checks.model}


if __name__ == "__main__":
    validate(Path(sys.argv[1]), BatchFileSpec, check_requests)
