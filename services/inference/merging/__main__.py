"""Merges an adapter for an engine: ``python -m services.inference.merging SPEC TARGET``.

Runs in the training runtime. ``TARGET`` exists once it is complete.
"""

import shutil
import sys
from pathlib import Path

from services.inference.merging.spec import AdapterMerge
from services.inference.merging.weights import merge_adapter


def main() -> None:
    spec = AdapterMerge.model_validate_json(Path(sys.argv[1]).read_bytes())
    target = Path(sys.argv[2])
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    base = spec.base
    merge_adapter(
        base.location,
        spec.adapter,
        partial,
        spec.stop_token_ids,
        base.revision,
        trusted=base.trusted,
        tokenizer=base.tokenizer,
    )
    partial.rename(target)


if __name__ == "__main__":
    main()
