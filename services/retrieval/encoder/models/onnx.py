"""ONNX models, run by onnxruntime."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from services.retrieval.encoder.models.configuration import (
    ModelConfiguration,
    ModelUnusable,
    Pooling,
)
from services.retrieval.encoder.models.encoder import normalized
from services.retrieval.encoder.models.tokenization import TextTokenizer, by_length

FILES = ("onnx/model.onnx", "model.onnx")
MAX_TOKENS = 8192
MAX_ROWS = 16
"""More rows are slower on a CPU: padding grows and activations leave the cache."""

Array = NDArray[np.float32]


def onnx_file(folder: Path) -> Path | None:
    """The ONNX file of a model's folder, if any."""
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


class OnnxModel:
    """An ONNX export of a transformer that returns the last hidden states."""

    device = "cpu"
    reentrant = True

    def __init__(self, configuration: ModelConfiguration, max_tokens: int) -> None:
        """Load it; raises `ModelUnusable` when it cannot be run or pooled."""
        path = onnx_file(configuration.folder)
        if path is None:
            raise ModelUnusable(f"{configuration.folder} has no ONNX file ({' or '.join(FILES)})")
        if not configuration.plain or configuration.pooling is Pooling.OTHER:
            raise ModelUnusable(f"{configuration.folder} has modules that its ONNX file lacks")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its exceptions have no common base
            raise ModelUnusable(f"{path}: {error}") from error
        self._inputs = {given.name for given in self._session.get_inputs()}
        self._output = self._session.get_outputs()[0].name
        self._by_mean = configuration.pooling is Pooling.MEAN
        self._tokenizer = TextTokenizer(configuration, max_tokens)
        self.dimension = self._computed([[0]]).shape[1]

    def vectors(self, texts: Sequence[str]) -> Array:
        """Unit vectors of texts: (texts, dimension)."""
        tokens = self._tokenizer(texts)
        lengths = [len(text) for text in tokens]
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for batch in by_length(lengths, max_tokens=MAX_TOKENS, max_rows=MAX_ROWS):
            vectors[batch] = self._computed([tokens[position] for position in batch])
        return vectors

    def _computed(self, texts: list[list[int]]) -> Array:
        tokens = np.zeros((len(texts), max(map(len, texts))), np.int64)
        mask = np.zeros_like(tokens)
        for row, text in enumerate(texts):
            tokens[row, : len(text)] = text
            mask[row, : len(text)] = 1
        given = {
            "input_ids": tokens,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(tokens),
        }
        given = {name: value for name, value in given.items() if name in self._inputs}
        hidden: Array = self._session.run([self._output], given)[0].astype(np.float32)
        if not self._by_mean:
            return normalized(hidden[:, 0])
        unmasked = hidden * mask[:, :, None].astype(np.float32)
        return normalized(unmasked.sum(axis=1) / mask.sum(axis=1, keepdims=True).astype(np.float32))
