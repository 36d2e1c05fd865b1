"""What vLLM mixes into each of its workers: `services.inference.vllm.launch` names it.

Importing it makes the engines below known to vLLM, before a worker builds the one that its
--weight-transfer-config asks for. Written for vLLM 0.32.
"""

from vllm.distributed.weight_transfer import WeightTransferEngineFactory

from services.inference.vllm.draft_switch import DraftSwitch
from services.inference.weights.folder_engine import FolderEngine

FOLDER = "temper-folder"

WeightTransferEngineFactory.register_engine(FOLDER, FolderEngine)


class WeightWorker(DraftSwitch):
    """What a policy's worker can do beside vLLM's own."""
