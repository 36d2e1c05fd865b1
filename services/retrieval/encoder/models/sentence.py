"""Models that sentence-transformers runs, on any device."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from services.retrieval.encoder.models.configuration import ModelConfiguration, ModelUnusable
from services.retrieval.encoder.models.encoder import normalized

ROWS_ON_CPU = 32
ROWS_ON_GPU = 256


_SUPPORTED = (
    "supported are models of text whose first module is a Transformer or a StaticEmbedding, "
    "without code of their own and without a Router"
)
_LOADING_ERRORS = (
    *(OSError, ValueError, KeyError, RuntimeError, ImportError),
    *(AttributeError, TypeError, IndexError),
)
"""What the library raises for a folder with unknown or incompatible modules."""


class SentenceModel:
    """A model run by sentence-transformers, on all cores or a GPU."""

    reentrant = False

    def __init__(
        self, configuration: ModelConfiguration, max_tokens: int, device: str, threads: int
    ) -> None:
        """Load it; raises `ModelUnusable`."""
        torch.set_num_threads(threads)
        try:
            self._model = SentenceTransformer(
                str(configuration.folder), device=device, trust_remote_code=False, prompts={}
            )
            self._model.default_prompt_name = None
            self._threads = threads
            self._rows = ROWS_ON_CPU if device == "cpu" else ROWS_ON_GPU
            self.device = device
            _limit_tokens(self._model, max_tokens)
            self.dimension = self.vectors([""]).shape[1]
        except _LOADING_ERRORS as error:
            raise ModelUnusable(f"{configuration.folder}: {error}; {_SUPPORTED}") from error

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (texts, dimension)."""
        torch.set_num_threads(self._threads)  # of this thread's computing
        found = self._model.encode(
            list(texts), batch_size=self._rows, show_progress_bar=False, convert_to_numpy=True
        )
        return normalized(np.asarray(found, dtype=np.float32))


def _limit_tokens(model: SentenceTransformer, most: int) -> None:
    """Cut texts to their first ``most`` tokens."""
    first = model[0]
    if isinstance(first, StaticEmbedding):  # it has no limit, and rejects setting one
        first.tokenizer.enable_truncation(most)
    else:
        model.max_seq_length = most


class Reranker:
    """A cross-encoder: scores a query and a passage jointly."""

    def __init__(self, folder: str, max_tokens: int, device: str, threads: int) -> None:
        """Load it; raises `ModelUnusable`."""
        torch.set_num_threads(threads)
        try:
            self._model = CrossEncoder(
                folder, max_length=max_tokens, device=device, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            raise ModelUnusable(f"{folder}: {error}") from error
        labels = self._model.num_labels
        if labels != 1:
            raise ModelUnusable(f"{folder} gives {labels} scores per passage instead of one")
        self._threads = threads
        self._rows = ROWS_ON_CPU if device == "cpu" else ROWS_ON_GPU

    def scores(self, query: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Relevance of each passage: (passages,), higher is better."""
        torch.set_num_threads(self._threads)
        pairs = [(query, passage) for passage in passages]
        found = self._model.predict(pairs, batch_size=self._rows, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)
