"""BERT on packed sequences: no padding is computed.

Most encoders are BERTs (MiniLM, e5, bge, gte), and a small one spends most of its time on padding,
masks and weight layouts; without them a batch takes about half as long. Weights are bfloat16 where
the CPU multiplies it faster. The mkldnn operators are those that torch's compiler uses (torch
2.13).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from services.retrieval.encoder.models.configuration import ModelConfiguration, Pooling
from services.retrieval.encoder.models.tokenization import TOKENIZER, TextTokenizer, by_length, runs

_FLAGS = {"avx512_bf16", "amx_bf16"}


def computes_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices faster than float32 ones."""
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return bool(words & _FLAGS)


class PackedLinear:
    """A linear layer with weights prepacked once, and optional GELU.

    torch would repack them on each call, which takes as long as a small batch itself.
    """

    def __init__(self, weight: Tensor, bias: Tensor, *, gelu: bool = False) -> None:
        """``weight`` is (outputs, inputs), ``bias`` (outputs,); both of one type."""
        self._gelu = gelu
        self._bias = bias
        self._packed = weight.dtype is torch.bfloat16
        if self._packed:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, inputs) to (rows, outputs)."""
        if self._packed:
            after, how = ("gelu", "none") if self._gelu else ("none", None)
            return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, after, [], how)
        y = torch.nn.functional.linear(x, self._weight, self._bias)
        return torch.nn.functional.gelu(y) if self._gelu else y


WEIGHTS = "model.safetensors"
MAX_TOKENS = 8192
MAX_ROWS = 256

Norm = tuple[Tensor, Tensor]
Groups = list[tuple[int, int]]
"""(count, length) of consecutive texts of equal length."""


def fits(configuration: ModelConfiguration) -> bool:
    """Whether `PackedBert` can run a model."""
    transformer = configuration.transformer
    return (
        configuration.plain
        and configuration.pooling is not Pooling.OTHER
        and transformer.get("model_type") == "bert"
        and transformer.get("hidden_act", "gelu") == "gelu"
        and transformer.get("position_embedding_type", "absolute") == "absolute"
        and not transformer.get("is_decoder", False)
        and (configuration.folder / WEIGHTS).is_file()
        and (configuration.folder / TOKENIZER).is_file()
    )


@dataclass(frozen=True)
class _Layer:
    attended: PackedLinear
    mixed: PackedLinear
    mixed_norm: Norm
    widened: PackedLinear
    narrowed: PackedLinear
    narrowed_norm: Norm


class PackedBert:
    """BERT on the CPU, in bfloat16 where the CPU supports it, else float32."""

    device = "cpu"
    reentrant = True

    def __init__(self, configuration: ModelConfiguration, max_tokens: int) -> None:
        """Load the weights of a model that `fits`; raises KeyError when some are missing."""
        table = configuration.transformer
        self.dimension = int(table["hidden_size"])
        self._heads = int(table["num_attention_heads"])
        self._epsilon = float(table.get("layer_norm_eps", 1e-12))
        self._by_mean = configuration.pooling is Pooling.MEAN
        self._tokenizer = TextTokenizer(configuration, max_tokens)
        weights = _Weights(configuration.folder / WEIGHTS)
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = weights["embeddings.position_embeddings.weight"]
        self._places = self._places + weights["embeddings.token_type_embeddings.weight"][0]
        self._norm = weights.norm("embeddings.LayerNorm")
        count = int(table["num_hidden_layers"])
        self._layers = [weights.layer(f"encoder.layer.{number}.") for number in range(count)]

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (texts, dimension)."""
        tokens = self._tokenizer(texts)
        lengths = [len(text) for text in tokens]
        vectors = np.empty((len(texts), self.dimension), np.float32)
        torch.set_num_threads(1)  # of this thread's computing
        with torch.inference_mode():
            for batch in by_length(lengths, max_tokens=MAX_TOKENS, max_rows=MAX_ROWS):
                vectors[batch] = self._computed([tokens[position] for position in batch]).numpy()
        return vectors

    def _computed(self, texts: list[list[int]]) -> Tensor:
        """Vectors of tokenized texts, sorted by length."""
        groups = list(runs([len(text) for text in texts]))
        words = torch.tensor([token for text in texts for token in text])
        places = torch.tensor([place for text in texts for place in range(len(text))])
        x = self._normalized(self._words[words] + self._places[places], self._norm)
        for layer in self._layers:
            attended = self._attention(layer.attended(x), groups)
            x = self._normalized(x + layer.mixed(attended), layer.mixed_norm)
            x = self._normalized(x + layer.narrowed(layer.widened(x)), layer.narrowed_norm)
        return functional.normalize(torch.cat(list(self._pooled(x, groups))), dim=1)

    def _normalized(self, x: Tensor, norm: Norm) -> Tensor:
        return functional.layer_norm(x, (self.dimension,), *norm, self._epsilon)

    def _attention(self, x: Tensor, groups: Groups) -> Tensor:
        """Self-attention: fused QKV (tokens, 3 * dimension) to (tokens, dimension)."""
        attended = []
        for part, (count, length) in zip(_split(x, groups), groups, strict=True):
            heads = part.view(count, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(*heads.unbind())
            attended.append(mixed.transpose(1, 2).reshape(count * length, self.dimension))
        return torch.cat(attended)

    def _pooled(self, x: Tensor, groups: Groups) -> Iterator[Tensor]:
        for part, (count, length) in zip(_split(x, groups), groups, strict=True):
            tokens = part.view(count, length, self.dimension).float()
            yield tokens.mean(1) if self._by_mean else tokens[:, 0]


def _split(x: Tensor, groups: Groups) -> Sequence[Tensor]:
    parts: Sequence[Tensor] = x.split([count * length for count, length in groups])
    return parts


class _Weights:
    """Tensors of a checkpoint by their BERT names, in the compute dtype."""

    def __init__(self, path: Path) -> None:
        self._type = torch.bfloat16 if computes_bfloat16() else torch.float32
        tensors = load_file(path)
        self._tensors = {name.removeprefix("bert."): value for name, value in tensors.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name].to(self._type)

    def norm(self, name: str) -> Norm:
        return self[f"{name}.weight"], self[f"{name}.bias"]

    def linear(self, *names: str, gelu: bool = False) -> PackedLinear:
        """Fuse several linear layers into one."""
        weight = torch.cat([self[f"{name}.weight"] for name in names])
        bias = torch.cat([self[f"{name}.bias"] for name in names])
        return PackedLinear(weight, bias, gelu=gelu)

    def layer(self, name: str) -> _Layer:
        attention = (f"{name}attention.self.{part}" for part in ("query", "key", "value"))
        return _Layer(
            attended=self.linear(*attention),
            mixed=self.linear(f"{name}attention.output.dense"),
            mixed_norm=self.norm(f"{name}attention.output.LayerNorm"),
            widened=self.linear(f"{name}intermediate.dense", gelu=True),
            narrowed=self.linear(f"{name}output.dense"),
            narrowed_norm=self.norm(f"{name}output.LayerNorm"),
        )
