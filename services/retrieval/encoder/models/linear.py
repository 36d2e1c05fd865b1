"""Linear layers in bfloat16, their weights laid out for the processor once and for all.

torch lays them out anew at each call, which takes as long as a small batch itself. The operators
are those that torch's own compiler uses (torch 2.13).
"""

from pathlib import Path

import torch
from torch import Tensor

_FLAGS = {"avx512_bf16", "amx_bf16"}


def computes_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16 faster than those of float32."""
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return bool(words & _FLAGS)


class Linear:
    """``x`` times a weight, plus a bias; then GELU, where it is asked for."""

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
