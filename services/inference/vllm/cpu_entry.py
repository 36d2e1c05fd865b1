"""Starts vLLM's API server where there is no GPU; run by the Python of the vllm runtime.

vLLM starts its engine, and once a model class is new the inspection of that class, in processes
that import everything again, because a process that has initialised CUDA cannot be forked.
Without a GPU nothing forbids it: forking the imported server brings it up in a third of the time
and lets both processes share their memory. This holds for vLLM 0.32; a version without these two
names would merely start slowly.

On a CPU an output layer multiplies with a packed copy of its weights. Where it shares them with the
embeddings, a reload leaves that copy as it was: it is packed again here.
"""

import gc

gc.disable()  # imports make half a million objects and no garbage: two seconds of every start

import multiprocessing  # noqa: E402
from typing import Any  # noqa: E402

import vllm.v1.engine.async_llm  # noqa: E402
import vllm.v1.engine.utils as engine_processes  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401 - what the engine imports, before the fork
from vllm.entrypoints.launchers.api_server.entry import main  # noqa: E402
from vllm.model_executor.layers import vocab_parallel_embedding as embedding  # noqa: E402
from vllm.model_executor.model_loader.reload import inplace as reloading  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402

_finish_reload = reloading.finalize_layerwise_reload


def finish_reload(model: Any, config: object) -> None:
    """Finish as vLLM does, then pack the output layer again."""
    _finish_reload(model, config)
    for layer in model.modules():
        unquantised = embedding.UnquantizedEmbeddingMethod
        if isinstance(layer, embedding.ParallelLMHead) and isinstance(
            layer.quant_method, unquantised
        ):
            layer.quant_method.process_weights_after_loading(layer)


if __name__ == "__main__":
    engine_processes.get_mp_context = lambda: multiprocessing.get_context("fork")
    registry._run_in_subprocess = lambda inspect: inspect()
    reloading.finalize_layerwise_reload = finish_reload
    gc.freeze()
    gc.enable()
    main()
