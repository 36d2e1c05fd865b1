"""Generates the rows of a dataset script: ``python -m services.trainer.offline.script_child RUN``.

Runs in the training runtime. The datasets library no longer loads scripts, so their class is
imported here and its methods are called: ``_info`` by its constructor, then ``_split_generators``
and ``_generate_examples``. The process has no network and writes files of bounded size only.
"""

import inspect
import json
import resource
import sys
import tempfile
import traceback
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path
from typing import Any

from services.trainer.offline.network import leave_network
from services.trainer.offline.scripts import ScriptRun


class ScriptError(Exception):
    """A script that is not a valid dataset script."""


def main() -> int:
    run = ScriptRun.model_validate_json(Path(sys.argv[1]).read_bytes())
    try:
        leave_network()
        resource.setrlimit(resource.RLIMIT_FSIZE, (run.max_bytes, run.max_bytes))
        with tempfile.TemporaryDirectory(dir=run.output.parent) as scratch:
            write(run, rows_of(run, Path(scratch)))
    except Exception as error:
        traceback.print_exc()
        name = "" if isinstance(error, ScriptError) else f"{type(error).__name__}: "
        run.error.write_text(f"{name}{error}", encoding="utf-8")
        return 1
    return 0


def rows_of(run: ScriptRun, scratch: Path) -> Iterator[Any]:
    """The rows of the script's split; the library's caches go to ``scratch``."""
    datasets = import_module("datasets")
    folder = run.script.parent
    builder = _builder_class(run.script, datasets)(cache_dir=str(scratch), base_path=str(folder))
    downloads = datasets.DownloadManager(
        dataset_name=builder.name,
        download_config=datasets.DownloadConfig(cache_dir=str(scratch), local_files_only=True),
        base_path=str(folder),
        record_checksums=False,
    )
    splits = {str(each.name): each for each in builder._split_generators(downloads)}
    if run.split not in splits:
        raise ScriptError(f"has no split {run.split!r}; it has {', '.join(sorted(splits))}")
    for _, row in builder._generate_examples(**splits[run.split].gen_kwargs):
        yield row


def _builder_class(script: Path, datasets: Any) -> Any:
    # A unique name: a script may share one with a library.
    spec = spec_from_file_location(f"dataset_script_{script.stem}", script)
    if spec is None or spec.loader is None:
        raise ScriptError("is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(script.parent))  # modules beside it
    spec.loader.exec_module(module)
    found = [
        each
        for each in vars(module).values()
        if inspect.isclass(each)
        and issubclass(each, datasets.GeneratorBasedBuilder)
        and each.__module__ == spec.name
    ]
    if len(found) != 1:
        names = ", ".join(each.__name__ for each in found) or "none"
        raise ScriptError(f"must define one subclass of GeneratorBasedBuilder; it has {names}")
    return found[0]


def write(run: ScriptRun, rows: Iterator[Any]) -> None:
    """Write the rows as JSON lines; the file gets its name once it is complete."""
    with open(run.partial, "w", encoding="utf-8") as out:
        for number, row in enumerate(islice(rows, run.max_rows + 1), start=1):
            if number > run.max_rows:
                raise ScriptError(f"has more than {run.max_rows:,} rows")
            if not isinstance(row, dict):
                raise ScriptError(f"row {number} is a {type(row).__name__}, not a dictionary")
            try:
                line = json.dumps(row, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ScriptError(f"row {number} is not JSON: {error}") from error
            out.write(line + "\n")
    run.partial.replace(run.output)


if __name__ == "__main__":
    sys.exit(main())
