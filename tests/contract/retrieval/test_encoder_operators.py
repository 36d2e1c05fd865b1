"""Undocumented operators of torch 2.13 that the encoder's linear layers depend on."""

import subprocess

import pytest

from tests.support.processes import REPOSITORY
from tests.support.runtimes import installed_runtime

COMPARE = """
import torch
from services.retrieval.encoder.models.packed_bert import PackedLinear, computes_bfloat16

assert torch.__version__.startswith("2.13."), torch.__version__
torch.manual_seed(0)
if not computes_bfloat16():
    print("no bfloat16")
    raise SystemExit
weight, bias = torch.randn(48, 32).bfloat16(), torch.randn(48).bfloat16()
for rows in (1, 7, 300):
    x = torch.randn(rows, 32).bfloat16()
    exact = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    torch.testing.assert_close(PackedLinear(weight, bias)(x).double(), exact, rtol=2e-2, atol=5e-2)
    widened = torch.nn.functional.gelu(exact)
    found = PackedLinear(weight, bias, gelu=True)(x).double()
    torch.testing.assert_close(found, widened, rtol=2e-2, atol=5e-2)
print("equal")
"""


@pytest.mark.runtime
def test_packed_linear_layers_match_plain_ones() -> None:
    python = installed_runtime("encoder").python

    ran = subprocess.run(
        [python, "-c", COMPARE], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    if "no bfloat16" in ran.stdout:
        pytest.skip("this processor does not compute with bfloat16")
