"""What vLLM mixes into each of its workers: `services.inference.vllm.launch` names it.

Importing it makes the engine below known to vLLM, before a worker builds the one that its
--weight-transfer-config asks for. Written for vLLM 0.32.
"""

from vllm.distributed.weight_transfer import WeightTransferEngineFactory

from services.inference.vllm.draft_switch import DraftSwitch
from services.inference.vllm.loading import MendedWorker
from services.inference.weights.direct_engine import DirectEngine

BACKEND = "temper"

WeightTransferEngineFactory.register_engine(BACKEND, DirectEngine)


class WeightWorker(DraftSwitch, MendedWorker):
    """What a policy's worker can do beside vLLM's own."""
