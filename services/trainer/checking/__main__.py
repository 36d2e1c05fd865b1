"""The job of a check whose file is valid: its result is the validation report.

python -m services.trainer.checking JOB_DIR VALIDATION_RESULT
"""

import json
import sys
from pathlib import Path

from services.core.process.reporter import Reporter

if __name__ == "__main__":
    found = json.loads(Path(sys.argv[2]).read_bytes())
    Reporter(Path(sys.argv[1])).finish(report=found["training_file"])
