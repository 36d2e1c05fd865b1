"""Converts a GGUF file into a folder of safetensors, in the training runtime."""

import hashlib
from pathlib import Path

import torch
from gguf import GGMLQuantizationType, GGUFReader
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

_READ_BYTES = 1 << 20


def convert(file: Path, target: Path) -> str:
    """Write the model and the tokenizer of ``file`` to ``target``; return the SHA-256 of the file.

    Weights are stored in bfloat16, or in float32 where the file has matrices in nothing else. The
    chat template comes along. Raises ValueError for weights that are missing, of another size or
    not finite, and for a tokenizer with ids beyond the embeddings.
    """
    folder = str(file.parent)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
    model, loaded = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file.name, output_loading_info=True
    )
    # Otherwise they would stay as they were drawn, with a line in the log.
    for problem in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, loaded[problem])):
            raise ValueError(f"the file does not have the weights of its model: {names[0]}")
    _check(model, len(tokenizer))
    # It would be saved as a quantized model, which it no longer is.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.to(_dtype(file)).save_pretrained(target)
    tokenizer.save_pretrained(target)
    return _checksum(file)


def _check(model: PreTrainedModel, tokens: int) -> None:
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise ValueError(f"the weights {name} are not finite")
    rows = model.get_input_embeddings().weight.shape[0]
    if tokens > rows:
        raise ValueError(f"the tokenizer has {tokens} tokens, the model embeddings of {rows}")


def _dtype(file: Path) -> torch.dtype:
    matrices = (each for each in GGUFReader(file).tensors if len(each.shape) > 1)
    stored = {each.tensor_type for each in matrices}
    return torch.float32 if stored == {GGMLQuantizationType.F32} else torch.bfloat16


def _checksum(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
