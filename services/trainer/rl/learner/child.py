"""The learner process.

    python -m services.trainer.rl.learner.child JOB_DIR

in the training runtime, or through ``torch.distributed.run`` with several devices. It connects to
the coordinator, loads what ``learner.json`` names, and answers requests until `Finish`, the end of
the connection, or a failure, which it tells.
"""

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

from services.trainer.rl.learner.protocol import Failed, Finish, Ready
from services.trainer.rl.learner.spec import SPEC, LearnerSpec
from services.trainer.sft.failures import explain

_PACKAGE = "services.trainer.rl.learner"


def main() -> int:
    spec = LearnerSpec.model_validate_json((Path(sys.argv[1]) / SPEC).read_bytes())
    _prepare_environment()
    # Imported late: it takes seconds, and the libraries read the environment when imported.
    processes = import_module(f"{_PACKAGE}.processes").Processes(spec.settings.optimisation)
    with import_module(f"{_PACKAGE}.requests").Coordinator(spec.socket, processes) as coordinator:
        phase = "loading_model"
        try:
            learner = import_module(f"{_PACKAGE}.learner").Learner(spec, processes)
            parameters = learner.trainable_parameters
            resumed = spec.checkpoint is not None
            coordinator.tell(Ready(resumed=resumed, trainable_parameters=parameters))
            phase = "training"
            for request in coordinator.requests():
                coordinator.tell(learner.answer(request))
                if isinstance(request, Finish):
                    break
        except Exception as error:
            traceback.print_exc()
            failure = explain(error, phase)
            coordinator.tell(
                Failed(code=failure.code, message=failure.message, param=failure.param)
            )
            return 1
        return 0


def _prepare_environment() -> None:
    """Keep the libraries from the network, as everything is in the folders that the spec names,
    and from drawing progress bars into the log."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


if __name__ == "__main__":
    sys.exit(main())
