"""How stage pt reads plain text: every token is trained, and none is dropped. Written for
LLaMA-Factory 0.9.5 with transformers 5.5.

The library's processor drops the tokens at the end of a batch of texts that do not fill a sequence,
so that a small file trains on nothing; its collator takes every token with the id of the padding
for padding, which for many models is the end of a text: they would not learn to stop.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from transformers import PreTrainedTokenizerBase

from services.datasets.rendering.guarded import GUARD
from services.trainer.offline.generation import IGNORED
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.rows.encoding import encoder_of


def install_plain_text() -> None:
    """Make the library prepare and collate texts as this module says."""
    loader: Any = llamafactory_module("data.loader")
    workflow: Any = llamafactory_module("train.pt.workflow")
    processor: Any = llamafactory_module("data.processor.pretrain").PretrainDatasetProcessor
    collator: Any = workflow.DataCollatorForLanguageModeling

    class PlainText(processor):  # type: ignore[misc]  # LLaMA-Factory is untyped here
        """Ids of texts, each followed by the end of text."""

        def preprocess_dataset(self, examples: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
            """Sequences of at most ``cutoff_len`` tokens: joined texts in pieces, or one text
            each."""
            tokenizer = self.tokenizer
            texts = [
                messages[0]["content"] + tokenizer.eos_token for messages in examples["_prompt"]
            ]
            is_begun = getattr(tokenizer, "add_bos_token", False)
            begin = [tokenizer.bos_token_id] if is_begun else []
            room = self.data_args.cutoff_len - len(begin)
            rows = text_ids(tokenizer, texts)
            pieces = split(rows, room) if self.data_args.packing else [row[:room] for row in rows]
            ids = [begin + piece for piece in pieces]
            return {"input_ids": ids, "attention_mask": [[1] * len(each) for each in ids]}

    class AllTokens(collator):  # type: ignore[misc]  # LLaMA-Factory is untyped here
        """Every token but the padding has a loss."""

        def torch_call(self, examples: list[Any]) -> Any:
            batch = super().torch_call(examples)
            batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
            return batch

    loader.PretrainDatasetProcessor = PlainText
    workflow.DataCollatorForLanguageModeling = AllTokens


def split(rows: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """Joined rows in pieces of ``size`` tokens, the last one shorter. A last piece of one token is
    left out: it has no context in which it could be learned."""
    joined = list(chain.from_iterable(rows))
    pieces = [joined[begin : begin + size] for begin in range(0, len(joined), size)]
    return [piece for piece in pieces if len(piece) > 1]


def text_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts; special tokens that are guarded are ordinary text."""
    if not any(GUARD in text for text in texts):
        found: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return found
    encode = encoder_of(tokenizer)
    return [list(encode(text).ids) for text in texts]
