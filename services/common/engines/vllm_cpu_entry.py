"""Starts vLLM's API server where there is no GPU; run by the Python of the vllm runtime.

vLLM starts its engine, and once a model class is new the inspection of that class, in processes
that import everything again, because a process that has initialised CUDA cannot be forked.
Without a GPU nothing forbids it: forking the imported server brings it up in a third of the time
and lets both processes share their memory. This holds for vLLM 0.32; a version without these two
names would merely start slowly.
"""

import gc

gc.disable()  # imports make half a million objects and no garbage: two seconds of every start

import multiprocessing  # noqa: E402

import vllm.v1.engine.async_llm  # noqa: E402
import vllm.v1.engine.utils as engine_processes  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401 - what the engine imports, before the fork
from vllm.entrypoints.launchers.api_server.entry import main  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402

if __name__ == "__main__":
    engine_processes.get_mp_context = lambda: multiprocessing.get_context("fork")
    registry._run_in_subprocess = lambda inspect: inspect()
    gc.freeze()
    gc.enable()
    main()
