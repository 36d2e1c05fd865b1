"""Answers to the prompts of the validation data, generated and graded at every evaluation.

Holds for LLaMA-Factory 0.9.5 with transformers 5.5. Its own ``predict_with_generate`` is not used:
it pads prompts on the right until the training has ended, forgets its sampling settings and stop
tokens at the first evaluation, and drops the loss.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed
from accelerate.utils import broadcast_object_list, gather_object
from transformers import GenerationConfig, PreTrainedTokenizerBase

from services.trainer.offline.grading import AnswerPair
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.spec import VALIDATION_DATASET

IGNORED = -100
"""The label of a token without a loss."""


@dataclass(frozen=True)
class GenerationSetup:
    """How answers are generated and graded. ``options`` are transformers' names;
    ``earlier_turns`` has, by validation dataset, the rows that are not answered: all but the last
    of a conversation that is several rows."""

    max_tokens: int
    options: dict[str, Any]
    stop_token_ids: tuple[int, ...]
    grade: Callable[[Sequence[AnswerPair]], dict[str, float]]
    earlier_turns: Mapping[str, Collection[int]] = field(default_factory=dict)

    def earlier(self, metric_prefix: str) -> Collection[int]:
        """The rows that are not answered of the dataset whose metrics have this prefix: ``eval``,
        or ``eval_NAME`` where each dataset has metrics of its own."""
        name = metric_prefix.removeprefix("eval").removeprefix("_")
        return self.earlier_turns.get(name or VALIDATION_DATASET, ())


@dataclass(frozen=True)
class GenerationPrompt:
    """The tokens before the last answer of a conversation, and that answer."""

    token_ids: list[int]
    answer: list[int]


def install_generation(generation: GenerationSetup) -> None:
    """Make stage sft generate answers during evaluation."""
    workflow: Any = llamafactory_module("train.sft.workflow")
    workflow.CustomSeq2SeqTrainer = generating_trainer(generation)


def generating_trainer(generation: GenerationSetup) -> Any:
    """A trainer of stage sft whose evaluations add the metrics of generated answers."""
    original: Any = llamafactory_module("train.sft.trainer").CustomSeq2SeqTrainer

    class GeneratingTrainer(original):  # type: ignore[misc]  # transformers is untyped here
        def evaluation_loop(
            self, dataloader: Any, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any
        ) -> Any:
            output = super().evaluation_loop(
                dataloader, *args, metric_key_prefix=metric_key_prefix, **kwargs
            )
            earlier = generation.earlier(metric_key_prefix)
            means = self._graded(list(prompts(dataloader.dataset, earlier)))
            output.metrics.update({f"{metric_key_prefix}_{name}": means[name] for name in means})
            return output

        def _graded(self, asked: list[GenerationPrompt]) -> dict[str, float]:
            """Metrics over the prompts, which are sharded over the processes."""
            accelerator = self.accelerator
            mine = asked[accelerator.process_index :: accelerator.num_processes]
            answers = generate(
                accelerator.unwrap_model(self.model),
                self.processing_class,
                mine,
                generation,
                batch_size=self.args.per_device_eval_batch_size,
                seed=self.args.seed,
            )
            answers = gather_object(answers)
            means = [generation.grade(answers)] if accelerator.is_main_process and answers else [{}]
            return dict(broadcast_object_list(means)[0])

    return GeneratingTrainer


def prompts(rows: Any, earlier: Collection[int] = ()) -> Iterator[GenerationPrompt]:
    """The last answer of each tokenized row, after everything before it; none of the rows that are
    ``earlier`` turns of a conversation."""
    for number, row in enumerate(rows):
        if number in earlier:
            continue
        ids, labels = list(row["input_ids"]), list(row["labels"])
        end = len(labels)
        while end and labels[end - 1] == IGNORED:
            end -= 1
        start = end
        while start and labels[start - 1] != IGNORED:
            start -= 1
        if 0 < start < end:
            yield GenerationPrompt(ids[:start], ids[start:end])


def generate(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    asked: Sequence[GenerationPrompt],
    generation: GenerationSetup,
    *,
    batch_size: int,
    seed: int,
) -> list[AnswerPair]:
    """Answer every prompt, in order. The training's random state is preserved."""
    stops = _stops(tokenizer, generation.stop_token_ids, asked)
    config = GenerationConfig(
        max_new_tokens=generation.max_tokens,
        eos_token_id=sorted(stops),
        pad_token_id=tokenizer.pad_token_id,
        use_cache=True,
        **{"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, **generation.options},
    )
    answers: list[AnswerPair] = []
    was_training = model.training
    model.eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for first in range(0, len(asked), batch_size):
            batch = asked[first : first + batch_size]
            ids, mask = left_padded([each.token_ids for each in batch], tokenizer.pad_token_id)
            device = model.device
            sequences = model.generate(
                input_ids=ids.to(device), attention_mask=mask.to(device), generation_config=config
            )
            written = sequences[:, ids.shape[1] :].tolist()
            answers += [
                AnswerPair(
                    text=_text(tokenizer, _until(tokens, stops)),
                    reference=_text(tokenizer, each.answer),
                )
                for tokens, each in zip(written, batch, strict=True)
            ]
    model.train(was_training)
    return answers


def left_padded(rows: Sequence[list[int]], padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, (rows, longest): a model continues the last column."""
    width = max(map(len, rows))
    ids = [[padding] * (width - len(row)) + row for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids), torch.tensor(mask)


def _stops(
    tokenizer: PreTrainedTokenizerBase, given: Sequence[int], asked: Sequence[GenerationPrompt]
) -> set[int]:
    """The tokens that end an answer: those of the template and the tokenizer, and every additional
    special token that no answer contains before its end."""
    named = ("bos_token_id", "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id")
    kept = {getattr(tokenizer, name, None) for name in named}
    inside = {token for each in asked for token in each.answer[:-1]}
    added = tokenizer.added_tokens_decoder.items()
    special = {*tokenizer.all_special_ids, *(token for token, each in added if each.special)}
    return {*given, *(special - kept - inside)}


def _until(tokens: list[int], stops: set[int]) -> list[int]:
    return next((tokens[:i] for i, token in enumerate(tokens) if token in stops), tokens)


def _text(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> str:
    return str(tokenizer.decode(tokens, skip_special_tokens=True))
