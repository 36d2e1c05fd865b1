"""The merging child.

    python -m services.trainer.merging JOB_DIR

in the training runtime. Leaves the model in ``model`` and its result in ``result.json``; after a
kill it restarts.
"""

import platform
import shutil
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from services.core.process.reporter import Reporter, succeeded_before
from services.trainer.errors import explain
from services.trainer.merging.spec import SPEC, MergeSpec

MODEL = "model"
_LIBRARIES = ("torch", "transformers", "peft", "gguf")


def main() -> int:
    job_dir = Path(sys.argv[1]).resolve()
    if succeeded_before(job_dir):
        return 0
    reporter = Reporter(job_dir)
    try:
        reporter.phase("starting")
        spec = MergeSpec.model_validate_json((job_dir / SPEC).read_bytes())
        source = _merge(spec, job_dir, reporter)
    except Exception as error:
        traceback.print_exc()
        failure = explain(error, "loading_model")
        reporter.fail(failure.code, failure.message, failure.param)
        return 1
    reporter.finish(
        model_dir=MODEL,
        gguf=source,
        stop_token_ids=spec.stop_token_ids,
        library_versions={"python": platform.python_version()}
        | {name: version(name) for name in _LIBRARIES},
    )
    return 0


def _merge(spec: MergeSpec, job_dir: Path, reporter: Reporter) -> dict[str, str] | None:
    """Write the model; return what names its GGUF file, if it was one."""
    partial = job_dir / f"{MODEL}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(job_dir / MODEL, ignore_errors=True)
    # Imported late: it takes seconds.
    if spec.gguf is not None and spec.model.path is not None:
        reporter.phase("converting")
        converted = import_module("services.trainer.merging.gguf").convert
        checksum = converted(spec.model.path / spec.gguf, partial)
        partial.rename(job_dir / MODEL)
        return {"file": spec.gguf, "sha256": checksum}
    located = import_module("services.trainer.hub").model_folder
    base = located(spec.model, job_dir, reporter.phase, reporter=reporter)
    reporter.phase("merging")
    if spec.value_head is not None:
        _make_classifier(spec, spec.value_head, base, partial)
    elif spec.adapter is not None:
        weights = import_module("services.inference.merging.weights")
        weights.merge_adapter(
            base,
            spec.adapter,
            partial,
            spec.stop_token_ids,
            trusted=spec.model.trusted,
            tokenizer=spec.model.tokenizer,
        )
    partial.rename(job_dir / MODEL)
    return None


def _make_classifier(spec: MergeSpec, checkpoint: Path, base: Path, target: Path) -> None:
    model_files = import_module("services.trainer.model_files")
    model_files.copy_model(checkpoint, target)
    template = None
    if spec.template is not None:
        named = import_module("services.trainer.offline.library.named_template")
        load = import_module("services.trainer.offline.tokenizer").load_tokenizer
        folder = spec.model.tokenizer or base
        template = named.chat_template_of(
            spec.template, load(folder, trusted=spec.model.trusted), spec.arguments
        )
    classifier = import_module("services.trainer.offline.reward_classifier")
    classifier.convert_to_classifier(
        target, base, spec.stop_token_ids, template, trusted=spec.model.trusted
    )


if __name__ == "__main__":
    sys.exit(main())
