"""The downloading child.

    python -m services.trainer.downloading JOB_DIR

in the core environment. What is complete is kept after a kill.
"""

import sys
import traceback
from importlib import import_module
from pathlib import Path

from services.core.artifacts import ModelSource
from services.core.process.reporter import Reporter, succeeded_before
from services.trainer.errors import explain

SPEC = "spec.json"
PHASE = "downloading_model"


def main() -> int:
    job_dir = Path(sys.argv[1]).resolve()
    if succeeded_before(job_dir):
        return 0
    reporter = Reporter(job_dir)
    try:
        model = ModelSource.model_validate_json((job_dir / SPEC).read_bytes())
        # Imported late: the hub's client takes a second.
        hub = import_module("services.trainer.hub")
        folder = hub.model_folder(model, job_dir, reporter.phase, reporter=reporter)
    except Exception as error:
        traceback.print_exc()
        failure = explain(error, PHASE)
        reporter.fail(failure.code, failure.message, failure.param)
        return 1
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    reporter.finish(hub_id=model.hub_id, commit=folder.name, bytes=size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
