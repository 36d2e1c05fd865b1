"""How a running server takes new weights."""

import time

from services.trainer.rl.engine.server_life import ServerLife
from services.trainer.rl.engine.server_plan import BASE, Weights
from services.trainer.rl.engine.verification import Expectation, warm


async def exchange(life: ServerLife, weights: Weights, expectation: Expectation) -> float:
    """Let the server sample from ``weights``; return for how many seconds it was paused.

    An adapter comes under a name of its own, beside the one before: requests that run finish with
    theirs. Whole weights replace those before: requests that run go on from their tokens with the
    new ones. Raises `EngineFailed`.
    """
    if weights.folder is None:
        return 0.0
    if weights.adapter is not None:
        await life.load_adapter(weights.adapter, weights.folder)
        return 0.0
    await warm(life.engine, BASE, expectation)
    paused = time.monotonic()
    await life.control.pause()
    await life.control.reload(weights.folder)
    await life.control.reset_prefix_cache()
    await life.control.name_version(weights.version)
    await life.control.resume()
    return time.monotonic() - paused
