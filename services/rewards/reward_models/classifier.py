"""A sequence classifier with one label, over whole conversations."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from services.models.tokenizer_ids.files import TOKENIZER
from services.models.tokenizer_ids.prepared import prepare_tokenizer
from services.rewards.reward_models.messages import Message, Schema, rendered


class Classifier:
    """Scores conversations; texts longer than ``max_length`` tokens are truncated on the left."""

    def __init__(self, folder: Path, max_length: int, *, trusted: bool = False) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._tokenizer = _tokenizer(folder, trusted=trusted)
        self._model = AutoModelForSequenceClassification.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=trusted,
            use_safetensors=True,  # other weights are programs
            dtype="auto" if device == "cuda" else torch.float32,
        )
        if self._model.config.num_labels != 1:
            labels = self._model.config.num_labels
            raise ValueError(f"it has {labels} labels; a reward model has one")
        self._model.to(device).eval()
        longest = getattr(self._model.config, "max_position_embeddings", None) or max_length
        self._max_length = min(max_length, longest)

    def score(
        self, conversations: list[list[Message]], tools: list[list[Schema]] | None = None
    ) -> list[float]:
        """The label's logit of each conversation, with the ``tools`` on offer in each; None: in
        none."""
        offered = tools or [[] for _ in conversations]
        rows = [self._tokens(*each) for each in zip(conversations, offered, strict=True)]
        padding = self._padding(rows)
        width = max(map(len, rows))
        device = self._model.device
        token_ids = torch.tensor([row + [padding] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        with torch.inference_mode():
            answer = self._model(input_ids=token_ids.to(device), attention_mask=mask.to(device))
        scores: list[float] = answer.logits[:, 0].float().tolist()
        return scores

    def _tokens(self, messages: list[Message], tools: list[Schema]) -> list[int]:
        if self._tokenizer.chat_template is None:
            text = "\n".join(f"{each['role']}: {each.get('content')}" for each in messages)
            token_ids = self._tokenizer(text)["input_ids"]
        else:
            text = rendered(self._template, messages, tools)
            token_ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return list(token_ids[-self._max_length :])

    def _template(self, messages: list[Message], tools: list[Schema] | None) -> str:
        text: str = self._tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        return text

    def _padding(self, rows: list[list[int]]) -> int:
        """The token to pad with. Decoders find a text's end by it, so that one that has none of
        its own is given a token that is in no row."""
        padding = self._model.config.pad_token_id
        if padding is None:
            used = set().union(*rows)
            padding = next(i for i in range(len(used) + 1) if i not in used)
        if getattr(self._model.config, "is_encoder_decoder", False):
            return int(padding)
        self._model.config.get_text_config().pad_token_id = padding
        return int(padding)


def _tokenizer(folder: Path, *, trusted: bool) -> PreTrainedTokenizerBase:
    """The tokenizer as its tokenizer.json stands; without one, as transformers builds it."""
    with TemporaryDirectory(prefix="temper-tokenizer-") as scratch:
        prepared = folder
        if (folder / TOKENIZER).is_file():
            prepared = prepare_tokenizer(folder, Path(scratch) / "prepared")
        return AutoTokenizer.from_pretrained(
            prepared, local_files_only=True, trust_remote_code=trusted
        )
