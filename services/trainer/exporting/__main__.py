"""The exporting child.

    python -m services.trainer.exporting JOB_DIR

in the training runtime. Resumes a killed attempt.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from services.contracts.models.jobs import HUB, scheme_of
from services.core.process.reporter import Reporter, succeeded_before
from services.trainer.errors import explain
from services.trainer.exporting.package import ExportedFile, package
from services.trainer.exporting.spec import SPEC, Credentials, ExportSpec

_MIB = 1 << 20
_STEPS = 100
"""Maximum progress reports per export."""


class Sent:
    """Counts bytes, and reports them in MiB."""

    def __init__(self, reporter: Reporter, total: int) -> None:
        self._reporter = reporter
        self._total = total
        self._sent = 0
        self._reported = 0

    def __call__(self, size: int) -> None:
        """Count bytes that were transferred."""
        self._sent += size
        if self._sent == self._total or self._sent - self._reported > self._total / _STEPS:
            self._reported = self._sent
            self._reporter.progress(_mebibytes(self._sent), _mebibytes(self._total))


def main() -> int:
    job_dir = Path(sys.argv[1]).resolve()
    credentials = Credentials.take_from(os.environ)
    if succeeded_before(job_dir):
        return 0
    reporter = Reporter(job_dir)
    try:
        reporter.phase("starting")
        spec = ExportSpec.model_validate_json((job_dir / SPEC).read_bytes())
        files = package(spec, job_dir / "staging")
        reporter.phase("exporting")
        commit = _send(spec, files, credentials, job_dir, reporter)
    except Exception as error:
        sys.stderr.write(credentials.hide_in(traceback.format_exc()))
        failure = explain(error, "exporting")
        code = "export_failed" if failure.code == "training_failed" else failure.code
        reporter.fail(code, credentials.hide_in(failure.message), failure.param)
        return 1
    total = sum(file.size for file in files)
    reporter.finish(files=len(files), bytes=total, commit=commit)
    return 0


def _send(
    spec: ExportSpec,
    files: Sequence[ExportedFile],
    credentials: Credentials,
    job_dir: Path,
    reporter: Reporter,
) -> str | None:
    """Copy the files; return the commit, if the destination has any."""
    sent = Sent(reporter, sum(file.size for file in files))
    # Imported late: they take seconds, and a store does not need the hub's client.
    if scheme_of(spec.destination) == HUB:
        hub = import_module("services.trainer.exporting.hub")
        commit: str = hub.Hub(spec.destination, credentials.hub_token).send(
            files, f"Export {spec.about['id']}", sent
        )
        return commit
    stores = import_module("services.trainer.exporting.store")
    store = stores.Store(spec.destination, credentials.options, spec.job_id, job_dir / stores.SENT)
    store.send(files, sent)
    return None


def _mebibytes(size: int) -> int:
    return -(-size // _MIB)


if __name__ == "__main__":
    sys.exit(main())
