"""The merge itself, with PEFT; imported by children in the training runtime only."""

from pathlib import Path

import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from services.models.tokenizer_ids.files import TOKENIZER, copy_tokenizer

_VOCABULARY = ("embed_tokens.weight", "lm_head.weight")


def merge_adapter(
    base: Path | str,
    adapter: Path,
    target: Path,
    stop_token_ids: list[int],
    revision: str | None = None,
    *,
    trusted: bool = False,
    tokenizer: Path | None = None,
) -> None:
    """Write the merged model and its tokenizer to ``target``.

    The model has the base's data type, and generation stops at ``stop_token_ids`` as well as its
    own tokens. ``base`` is a folder, or a hub repository at ``revision``, whose own code may run
    where it is ``trusted``. The tokenizer is copied as it stands: that in the folder ``tokenizer``,
    the adapter's, or else the base's. Raises ValueError for an adapter with weights that are not
    finite.
    """
    model = AutoModelForCausalLM.from_pretrained(
        str(base), revision=revision, dtype="auto", trust_remote_code=trusted, use_safetensors=True
    )
    rows = adapter_vocabulary(adapter)
    if rows is not None and rows != model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(rows)
    merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload(safe_merge=True)
    _untie(merged)
    _stop_at(merged, stop_token_ids)
    merged.save_pretrained(target)
    folder = _tokenizer_folder(base, adapter, tokenizer)
    if folder is not None:
        copy_tokenizer(folder, target)
        return
    # Written by transformers: it has no tokenizer.json, or is in the hub's cache.
    loaded = AutoTokenizer.from_pretrained(str(base), revision=revision, trust_remote_code=trusted)
    loaded.save_pretrained(target)


def _tokenizer_folder(base: Path | str, adapter: Path, given: Path | None) -> Path | None:
    """The folder whose tokenizer the merged model has; None where there is no tokenizer.json."""
    places = (given, adapter, Path(base))
    return next((each for each in places if each and (each / TOKENIZER).is_file()), None)


def adapter_vocabulary(adapter: Path) -> int | None:
    """Number of rows of an adapter's embeddings; None if it has none."""
    for path in adapter.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - safetensors' files are no mappings
                if name.endswith(_VOCABULARY):
                    return int(file.get_slice(name).get_shape()[0])
    return None


def _untie(model: PreTrainedModel) -> None:
    """Store both embeddings if training made them differ."""
    inputs, outputs = model.get_input_embeddings(), model.get_output_embeddings()
    if model.config.tie_word_embeddings and not torch.equal(inputs.weight, outputs.weight):
        model.config.tie_word_embeddings = False


def _stop_at(model: PreTrainedModel, token_ids: list[int]) -> None:
    settings = model.generation_config
    known = settings.eos_token_id
    known = known if isinstance(known, list) else [] if known is None else [known]
    settings.eos_token_id = list(dict.fromkeys([*known, *token_ids])) or None
