"""The parts of the demonstration's tiny model, for programs that the runtimes run.

The script is run as a file: the runtimes lack what its package imports.
"""

import runpy

from services.core.process.runtimes import REPOSITORY

_SCRIPT = runpy.run_path(str(REPOSITORY / "examples/demo_1_addition/model.py"))

build_tokenizer = _SCRIPT["build_tokenizer"]
build_model = _SCRIPT["build_model"]
