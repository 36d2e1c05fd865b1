"""Starts vLLM's API server on a host without GPU, in the vllm runtime.

vLLM spawns its engine, and the inspection of a new model class, as processes that import everything
again, because a process that has initialized CUDA cannot fork. Without a GPU forking is safe: it
starts the server in a third of the time and shares memory. Holds for vLLM 0.32; a version without
these two names would only start slowly.

On a CPU the output layer multiplies with a packed copy of its weights. With tied embeddings a
reload does not update that copy, so it is packed again here.
"""

import gc

gc.disable()  # imports create half a million objects and no garbage: saves 2 s per start

import multiprocessing  # noqa: E402
from typing import Any  # noqa: E402

import vllm.v1.engine.async_llm  # noqa: E402
import vllm.v1.engine.utils as engine_processes  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401 - what the engine imports, before the fork
from vllm.entrypoints.launchers.api_server.entry import main  # noqa: E402
from vllm.model_executor.layers import vocab_parallel_embedding as embedding  # noqa: E402
from vllm.model_executor.model_loader.reload import inplace as reloading  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402

from services.inference.vllm.cpu_kernels import mend_kernels  # noqa: E402

_finish_reload = reloading.finalize_layerwise_reload


def finish_reload(model: Any, config: object) -> None:
    """Run vLLM's own function, then pack the output layer again."""
    _finish_reload(model, config)
    for layer in model.modules():
        unquantized = embedding.UnquantizedEmbeddingMethod
        if isinstance(layer, embedding.ParallelLMHead) and isinstance(
            layer.quant_method, unquantized
        ):
            layer.quant_method.process_weights_after_loading(layer)


def serve() -> None:
    """Start the server, with the arguments of this process."""
    engine_processes.get_mp_context = lambda: multiprocessing.get_context("fork")
    registry._run_in_subprocess = lambda inspect: inspect()
    reloading.finalize_layerwise_reload = finish_reload
    mend_kernels()
    gc.freeze()
    gc.enable()
    main()


if __name__ == "__main__":
    serve()
