"""The training child: runs one stage of offline training and reports its progress.

    python -m services.trainer.offline JOB_DIR

in the training runtime, or through ``torch.distributed.run`` with several devices, where rank 0
prepares the data and reports. Resumes from the newest complete checkpoint in the job directory and
leaves ``result.json`` unless it is killed. On a pause request it saves a checkpoint and exits.
"""

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

from services.contracts.llamafactory.arguments import check_arguments, check_template
from services.core.process.reporter import Reporter, succeeded_before
from services.core.processors import usable_cores
from services.trainer.errors import explain
from services.trainer.offline.job_dir import Context, Paused, leads
from services.trainer.offline.spec import SPEC, TrainingSpec
from services.trainer.ranks import end_process

_PACKAGE = "services.trainer.offline"

TRAINED = ("training", "saving")
"""Phases with progress to save before a pause."""


def main() -> int:
    job_dir = Path(sys.argv[1]).resolve()
    if succeeded_before(job_dir):
        return 0
    reporter = Reporter(job_dir)
    phase = "starting"

    def enter(name: str) -> None:
        nonlocal phase
        phase = name
        if leads():
            reporter.phase(name)
        # With several processes the trainer's callback makes them stop at the same point.
        if context.processes == 1 and phase not in TRAINED and context.pause_requested:
            raise Paused

    context = Context(job_dir, reporter, enter)
    _prepare_environment(context)
    try:
        enter(phase)
        spec = TrainingSpec.model_validate_json((job_dir / SPEC).read_bytes())
        check_arguments(spec.arguments, spec.stage, beside=spec.beside)
        if spec.template is not None:
            check_template(spec.template)
        # Imported late: it takes seconds, and the libraries read the environment on import.
        import_module(f"{_PACKAGE}.rows.dataset").check_hub_datasets(spec, context.data_dir)
        hub = import_module("services.trainer.hub")
        told = {"reporter": reporter if leads() else None}
        model = hub.model_folder(spec.model, job_dir, enter, **told)
        reference = spec.reference and hub.model_folder(
            spec.reference.model, job_dir, enter, **told
        )
        prepare = import_module(f"{_PACKAGE}.preparation").prepare
        preparation = prepare(spec, model, reference, context)
        import_module(f"{_PACKAGE}.training").train(spec, preparation, context)
    except Paused:
        if leads():
            reporter.paused()
        return 0
    except Exception as error:
        traceback.print_exc()
        failure = explain(error, phase)
        reporter.fail(failure.code, failure.message, failure.param)
        return 1
    return 0


def _prepare_environment(context: Context) -> None:
    os.environ |= {
        "HF_DATASETS_CACHE": str(context.data_dir / "cache"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    # torch would count two threads of one core once.
    os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))
    # Its graceful stop would leave a model that looks finished.
    os.environ.pop("LLAMABOARD_ENABLED", None)


if __name__ == "__main__":
    end_process(main())
