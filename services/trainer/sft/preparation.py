"""Everything that is done before LLaMA-Factory is imported, so that bad input fails early."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.trainer.errors import TrainingFailure
from services.trainer.sft.context import Context
from services.trainer.sft.dataset import PreparedData, prepare_data, prepared_data
from services.trainer.sft.spec import TrainingSpec
from services.trainer.sft.tokens import layout, load_tokenizer, stop_token_ids

_WAIT_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Preparation:
    """The folder of the model to start from, data that are ready to train it on, and the tokens
    that end a turn in them."""

    model: Path
    data: PreparedData
    stop_token_ids: list[int]


def prepare(spec: TrainingSpec, model: Path, context: Context) -> Preparation:
    """Prepare the data for the model in a folder, once for all processes and attempts."""
    context.enter("loading_model")
    tokenizer = load_tokenizer(model)
    chosen = layout(spec, tokenizer)
    context.enter("preparing_data")
    data = prepared_data(context.data_dir, spec)
    if data is None and context.leads:
        data = prepare_data(spec, chosen, context.data_dir, _reporting(context))
    elif data is None:
        data = _await_data(spec, context)
    return Preparation(model, data, stop_token_ids(tokenizer, chosen, data.last_response))


def _reporting(context: Context) -> Callable[[int], None]:
    return lambda rows: context.reporter.message(f"{rows:,} rows prepared", rows=rows)


def _await_data(spec: TrainingSpec, context: Context) -> PreparedData:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        if (data := prepared_data(context.data_dir, spec)) is not None:
            return data
        time.sleep(1)
    raise TrainingFailure("the data were not prepared in time")
