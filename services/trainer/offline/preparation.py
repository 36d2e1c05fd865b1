"""What happens before LLaMA-Factory is imported, so that bad input fails early: the tokenizer, the
chat template, the tokens that end a turn, and the prepared data."""

import json
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from services.contracts.llamafactory.names import Stage
from services.contracts.training.fidelity import FIDELITY
from services.contracts.training.rows import RowKind
from services.datasets.record import RowError, counted
from services.datasets.rendering.exchanges import reasoning_key, with_reasoning_as
from services.datasets.rendering.guarded import guarding
from services.datasets.rendering.training_tokens import TokenSettings
from services.models.tokenizer_ids.files import read_end_tokens
from services.rollouts.chat.template import ChatTemplate, check_variables
from services.trainer.errors import TrainingFailure
from services.trainer.offline.job_dir import Context
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.library.rendering import library_renderer
from services.trainer.offline.rows.dataset import PreparedData, prepare_data, prepared_data
from services.trainer.offline.rows.encoding import encoder_of
from services.trainer.offline.rows.examples import RENDERED, ExampleLayout, Rendering
from services.trainer.offline.rows.training_file import val_size
from services.trainer.offline.spec import TrainingSpec
from services.trainer.offline.tokenizer import load_tokenizer, training_tokenizer

_WAIT_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Preparation:
    """The folders of the base model and of the tokenizer, the data prepared for them, and the
    tokens that end a turn."""

    model: Path
    tokenizer: Path
    data: PreparedData
    stop_token_ids: list[int]
    reference: Path | None = None


def prepare(
    spec: TrainingSpec, model: Path, reference: Path | None, context: Context
) -> Preparation:
    """Prepare the data for a model, once for all processes and attempts."""
    context.enter("loading_model")
    folder = training_tokenizer(spec, model, context)
    tokenizer = load_tokenizer(folder, trusted=spec.model.trusted)
    chosen = layout(spec, tokenizer)
    context.enter("preparing_data")
    data = prepared_data(context.data_dir, spec)
    if data is None and context.leads:
        data = prepare_data(spec, chosen, context.data_dir, _reporting(context))
        _store_fidelity(data, context)
        _tell_counts(spec, data, context)
    elif data is None:
        data = _await_data(spec, context)
    ends = [*data.turn_ends, data.last_response]
    stops = stop_token_ids(tokenizer, chosen, ends, read_end_tokens(folder))
    return Preparation(model, folder, data, stops, reference)


def _reporting(context: Context) -> Callable[[int], None]:
    return lambda rows: context.reporter.message(f"{rows:,} rows prepared", rows=rows)


def _store_fidelity(data: PreparedData, context: Context) -> None:
    """Store what became of the rows with the job, and say what training leaves out."""
    reports = {param: report.model_dump(mode="json") for param, report in data.fidelity.items()}
    (context.job_dir / FIDELITY).write_text(json.dumps(reports, ensure_ascii=False, indent=1))
    for param, report in data.fidelity.items():
        level = "info" if report.verdict == "faithful" else "warn"
        context.reporter.message(f"{param}: {report.summary}", level, artifact=FIDELITY)


def _tell_counts(spec: TrainingSpec, data: PreparedData, context: Context) -> None:
    """Say how many rows are trained, and how many the model is evaluated on."""
    text = f"{counted(data.training_rows, 'row')} to train"
    if data.validation_rows:
        source = "held out by val_size" if val_size(spec) else "of validation files"
        text += f", {counted(data.validation_rows, 'row')} {source}"
    context.reporter.message(
        text, training_rows=data.training_rows, validation_rows=data.validation_rows
    )


def _await_data(spec: TrainingSpec, context: Context) -> PreparedData:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        if (data := prepared_data(context.data_dir, spec)) is not None:
            return data
        time.sleep(1)
    raise TrainingFailure("the data was not prepared in time")


def layout(spec: TrainingSpec, tokenizer: PreTrainedTokenizerBase) -> ExampleLayout:
    """How rows become text for this model; raises TrainingFailure without a template, except for
    plain text.
    """
    if spec.neutralizes and not tokenizer.is_fast:
        raise TrainingFailure(
            "control_tokens neutralize needs a model with a tokenizer.json",
            param="control_tokens",
            code="invalid_arguments",
        )
    if spec.rows is RowKind.TEXT:
        encode = encoder_of(tokenizer)
        shown = Rendering(
            None,
            encode,
            token_settings(spec),
            end_of_text=str(tokenizer.eos_token or ""),
            splits_text=bool(spec.arguments.get("packing", True)),
        )
        guard = guarding(encode.special) if spec.neutralizes else None
        return ExampleLayout(RENDERED, shown=shown, guard=guard)
    if spec.template is not None:
        return _named_layout(spec, spec.template, tokenizer)
    if not tokenizer.chat_template:
        raise TrainingFailure(
            "the model has no chat template; name one of LLaMA-Factory's",
            param="template",
            code="invalid_arguments",
        )

    _check_variables(spec, tokenizer)
    reasoning = reasoning_key(str(tokenizer.chat_template))

    def chat_template(
        messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        try:
            text = tokenizer.apply_chat_template(
                with_reasoning_as(reasoning, messages),
                tools=tools or None,
                add_generation_prompt=prompt,
                tokenize=False,
                **spec.chat_template_kwargs,
            )
        except Exception as error:  # a template's code may raise anything
            reason = str(error)[:500] or type(error).__name__
            raise RowError(f"the chat template refuses the conversation: {reason}") from None
        return str(text)

    system = spec.arguments.get("default_system")
    return ExampleLayout(
        RENDERED,
        Rendering(chat_template, encoder_of(tokenizer), token_settings(spec)),
        default_system=str(system) if system else None,
    )


def token_settings(spec: TrainingSpec) -> TokenSettings:
    """The settings of a training that determine its tokens."""
    cutoff = spec.arguments.get("cutoff_len")
    return TokenSettings(
        cutoff=cutoff if isinstance(cutoff, int) else spec.max_seq_len,
        leaves_out_long=spec.leaves_out_long,
        neutralizes=spec.neutralizes,
        train_on_prompt=bool(spec.arguments.get("train_on_prompt")),
        mask_history=bool(spec.arguments.get("mask_history")),
        scores_answers=spec.stage is Stage.RM,
    )


def _check_variables(spec: TrainingSpec, tokenizer: PreTrainedTokenizerBase) -> None:
    given = tokenizer.chat_template
    sources = given.values() if isinstance(given, dict) else [given]
    templates = [ChatTemplate(source, {}) for source in sources]
    check_variables(spec.chat_template_kwargs, *templates)


def stop_token_ids(
    tokenizer: PreTrainedTokenizerBase,
    chosen: ExampleLayout,
    responses: Sequence[str],
    configured: Sequence[int] = (),
) -> list[int]:
    """The tokens that end a turn: the tokenizer's, the template's, the last token of responses, or
    of their ends, where it is special, and those ``configured`` for generation."""
    last = [
        token
        for response in responses
        for token in tokenizer.encode(response, add_special_tokens=False)[-1:]
    ]
    added = tokenizer.added_tokens_decoder.items()
    special = {*tokenizer.all_special_ids, *(token for token, each in added if each.special)}
    stops = [
        tokenizer.eos_token_id,
        *(token for token in last if token in special),
        *(tokenizer.get_vocab().get(word) for word in chosen.stop_words),
        *configured,
    ]
    return list(dict.fromkeys(int(token) for token in stops if token is not None))


def _named_layout(
    spec: TrainingSpec, name: str, tokenizer: PreTrainedTokenizerBase
) -> ExampleLayout:
    template = llamafactory_module("data.template").TEMPLATES[name]
    wraps_results = any(
        "<tool_response>" in str(slot) for slot in template.format_observation.slots
    )
    between = "\n</tool_response>\n<tool_response>\n" if wraps_results else "\n"
    own = deepcopy(tokenizer)  # which the template's special tokens are added to
    learns_turns = spec.rows is RowKind.DEMONSTRATION
    renderer = library_renderer(name, own, spec.arguments, between, learns_turns=learns_turns)
    return ExampleLayout(
        name,
        shown=Rendering(renderer, encoder_of(own), token_settings(spec)),
        between_results=between,
        stop_words=tuple(template.stop_words),
    )
