"""Which models compute embeddings instead of text."""

from pathlib import Path

from pydantic import BaseModel, ValidationError

SENTENCE_MODULES = "modules.json"
"""Sentence-transformers writes it beside the weights, whatever their architecture is."""
GENERATES = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
EMBEDS = ("Model", "ForTextEncoding")


class _Config(BaseModel):
    architectures: list[str] | None = None


def computes_embeddings(folder: Path | None) -> bool | None:
    """Whether the model in a folder embeds texts (True) or generates them (False).

    None: its files do not tell, or are not on this host.
    """
    if folder is None:
        return None
    if (folder / SENTENCE_MODULES).is_file():
        return True
    try:
        config = _Config.model_validate_json((folder / "config.json").read_bytes())
    except (OSError, ValidationError):
        return None
    for name in config.architectures or ():
        if name.endswith(GENERATES):
            return False
        if name.endswith(EMBEDS):
            return True
    return None
