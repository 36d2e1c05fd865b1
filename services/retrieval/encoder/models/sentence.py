"""Any sentence-transformers model, on any device."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder, SentenceTransformer

from services.retrieval.encoder.models.configuration import ModelConfiguration, ModelUnusable
from services.retrieval.encoder.models.encoder import normalized

ROWS_ON_CPU = 32
ROWS_ON_GPU = 256


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
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            raise ModelUnusable(f"{configuration.folder}: {error}") from error
        self._model.max_seq_length = max_tokens
        self._model.default_prompt_name = None
        self._threads = threads
        self._rows = ROWS_ON_CPU if device == "cpu" else ROWS_ON_GPU
        self.device = device
        self.dimension = self.vectors([""]).shape[1]

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (texts, dimension)."""
        torch.set_num_threads(self._threads)  # of this thread's computing
        found = self._model.encode(
            list(texts), batch_size=self._rows, show_progress_bar=False, convert_to_numpy=True
        )
        return normalized(np.asarray(found, dtype=np.float32))


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
