"""Peak memory and speed of every training method, beside the memory estimate.

Each case runs in a process of its own, as a job's child does. On a GPU the peak is the allocator's;
without one it is the sum of all living tensors, which a CPU computes in the same precision. Models
have random weights of a published shape, or are folders. Run from the repository root with the
Python of the training runtime:

    PYTHONPATH=. .temper/runtimes/training/bin/python -m benchmarks.memory tiny [--lengths 512 2048]

Prints a table; exits with 1 if an estimate is off by more than 15 percent.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.memory.apart import card_bytes, measured_apart
from benchmarks.memory.cases import Case, chosen_cases
from benchmarks.memory.models import SHAPES, make_model
from services.models.capacity.shape import ModelShape, read_shape
from services.models.capacity.training import BASE_MARGIN, USABLE

TOLERANCE = 0.15


def main() -> int:
    """Measure the cases of each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", help=f"{', '.join(SHAPES)}, or folders")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--rows", type=int, default=2, help="rows of a micro-batch")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of cases to run")
    parser.add_argument("--whole", action="store_true", help="recompute activations, and do not")
    options = parser.parse_args()
    possible = chosen_cases(options.lengths, options.rows, whole=options.whole)
    cases = [case for case in possible if any(part in case.name for part in options.only)]
    print(f"{'case':<58}{'measured':>10}{'estimated':>10}{'ratio':>7}{'tokens/s':>10}")
    found = [_measure_model(name, cases) for name in options.models]
    return 0 if all(found) else 1


def _measure_model(name: str, cases: list[Case]) -> bool:
    """Print the cases of a model; return whether all estimates are right."""
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(name, Path(folder))
        shape = read_shape(model)
        if shape is None:
            raise SystemExit(f"{name}: the shape of its layers is not known")
        print(f"{name}, {shape.parameters / 1e6:,.0f} million weights", flush=True)
        found = [_measure_apart(case, model, shape) for case in cases]
    return all(found)


def _measure_apart(case: Case, model: Path, shape: ModelShape) -> bool:
    """Measure in a process of its own and print the result."""
    estimated = case.estimated_bytes(shape)
    if _is_too_large(estimated):
        print(f"{case.name:<58}{'':>10}{estimated / 1e9:>10.2f}  does not fit", flush=True)
        return True
    found = measured_apart(case, model)
    if isinstance(found, str):
        print(f"{case.name:<58}  failed: {found}", flush=True)
        return False
    ratio = estimated / found.peak
    numbers = f"{found.peak / 1e9:>10.3f}{estimated / 1e9:>10.3f}{ratio:>7.2f}"
    print(f"{case.name:<58}{numbers}{found.tokens_per_second:>10,.0f}", flush=True)
    return abs(ratio - 1) <= TOLERANCE


def _is_too_large(estimated: float) -> bool:
    card = card_bytes()
    return card is not None and estimated * BASE_MARGIN > USABLE * card


if __name__ == "__main__":
    sys.exit(main())
