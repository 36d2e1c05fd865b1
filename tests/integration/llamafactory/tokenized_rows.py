"""Prints a job's training rows as LLaMA-Factory tokenizes them; run in the training runtime.

    python -m tests.integration.llamafactory.tokenized_rows JOB_DIR

prints a JSON list of {"tokens": [...], "labels": [...]}, both as texts; null marks a token
without loss.
"""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from services.contracts.llamafactory.names import Stage
from services.contracts.training.rows import RowKind
from services.trainer.hub import model_folder
from services.trainer.offline.arguments import TrainingEnvironment, build_arguments
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.library.plain_text import install_plain_text
from services.trainer.offline.preparation import layout
from services.trainer.offline.rows.dataset import prepare_data
from services.trainer.offline.rows.encoding import install_rendered_template
from services.trainer.offline.spec import SPEC, TrainingSpec
from services.trainer.offline.tokenizer import load_tokenizer


def tokenized_rows(job_dir: Path) -> list[dict[str, Any]]:
    spec = TrainingSpec.model_validate_json((job_dir / SPEC).read_bytes())
    tokenizer, rows = library_rows(spec, job_dir)
    return [
        {
            "tokens": [tokenizer.decode([token]) for token in row["input_ids"]],
            "labels": [
                None if label == -100 else tokenizer.decode([label]) for label in row["labels"]
            ],
        }
        for row in rows
    ]


def library_rows(spec: TrainingSpec, job_dir: Path) -> tuple[Any, Any]:
    """The library's tokenizer, and the training rows as its stage reads them."""
    base = model_folder(spec.model, job_dir, lambda phase: None)
    prepared = prepare_data(
        spec, layout(spec, load_tokenizer(base)), job_dir / "data", lambda rows: None
    )
    install_rendered_template()
    if spec.rows is RowKind.TEXT:
        install_plain_text()
    arguments = build_arguments(
        spec,
        TrainingEnvironment(
            model=base,
            output_dir=job_dir / "output",
            data_dir=job_dir / "data",
            template=prepared.template,
            rows=prepared.training_rows,
            has_validation=False,
        ),
    )
    model, data, training, _, _ = llamafactory_module("hparams").get_train_args(arguments)
    tokenizer = llamafactory_module("model").load_tokenizer(model)["tokenizer"]
    library = llamafactory_module("data")
    template = library.get_template_and_fix_tokenizer(tokenizer, data)
    stage = "rm" if spec.stage is Stage.DPO else spec.stage.value  # as its workflow calls it
    rows = library.get_dataset(
        template, model, data, training, stage=stage, tokenizer=tokenizer, processor=None
    )["train_dataset"]
    return tokenizer, rows


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):
        result = tokenized_rows(Path(sys.argv[1]))
    print(json.dumps(result))
