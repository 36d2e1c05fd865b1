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

from services.trainer.hub import model_folder
from services.trainer.offline.arguments import TrainingEnvironment, build_arguments
from services.trainer.offline.dataset import prepare_data
from services.trainer.offline.library import llamafactory_module
from services.trainer.offline.preparation import layout, load_tokenizer
from services.trainer.offline.spec import SPEC, TrainingSpec


def tokenized_rows(job_dir: Path) -> list[dict[str, Any]]:
    spec = TrainingSpec.model_validate_json((job_dir / SPEC).read_bytes())
    base = model_folder(spec.model, job_dir, lambda phase: None)
    prepared = prepare_data(
        spec, layout(spec, load_tokenizer(base)), job_dir / "data", lambda rows: None
    )
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
    rows = library.get_dataset(
        template, model, data, training, stage="sft", tokenizer=tokenizer, processor=None
    )["train_dataset"]
    return [
        {
            "tokens": [tokenizer.decode([token]) for token in row["input_ids"]],
            "labels": [
                None if label == -100 else tokenizer.decode([label]) for label in row["labels"]
            ],
        }
        for row in rows
    ]


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):
        result = tokenized_rows(Path(sys.argv[1]))
    print(json.dumps(result))
