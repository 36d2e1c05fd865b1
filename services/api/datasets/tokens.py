"""A registered data set, with tokens counted by a model's tokenizer."""

from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from services.api.context import GatewayContext
from services.api.datasets.service import dataset_view, get_dataset
from services.api.models.service import resolve_for_load
from services.contracts.data.datasets import Dataset, TokenStatistics
from services.datasets.token_counts.counter import TokensNotCounted
from services.models.registry import ResolvedModel, get_file_row


async def dataset_with_tokens(gateway: GatewayContext, name: str, model: str | None) -> Dataset:
    """A data set; tokens are counted with ``model``, or estimated and the reason given.

    Raises `NotFound` for an unknown data set or model.
    """
    found = await run_in_threadpool(_find, gateway, name, model)
    dataset, counting = found.dataset, found.model
    if counting is None:
        return dataset
    estimated = dataset.statistics.tokens
    if counting.tokenizer_file is None:
        return _with_tokens(dataset, estimated, counting.without_tokenizer)
    try:
        tokens = await gateway.tokens.count(
            found.path, found.sha256, counting.tokenizer_file, counting.id
        )
    except TokensNotCounted as error:
        return _with_tokens(dataset, estimated, error.message)
    return _with_tokens(dataset, tokens, None)


@dataclass(frozen=True)
class _Found:
    """A data set, its file, and the model whose tokens are counted."""

    dataset: Dataset
    path: Path
    sha256: str
    model: ResolvedModel | None


def _find(gateway: GatewayContext, name: str, model: str | None) -> _Found:
    with gateway.database.read() as session:
        row = get_dataset(session, name)
        counting = resolve_for_load(session, model, gateway.settings) if model is not None else None
        return _Found(
            dataset_view(session, row),
            gateway.artifacts.file(row.file_id),
            get_file_row(session, row.file_id).sha256,
            counting,
        )


def _with_tokens(dataset: Dataset, tokens: TokenStatistics, not_counted: str | None) -> Dataset:
    counted = tokens.model_copy(update={"not_counted": not_counted})
    statistics = dataset.statistics.model_copy(update={"tokens": counted})
    return dataset.model_copy(update={"statistics": statistics})
