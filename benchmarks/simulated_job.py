"""A job on a simulated GPU: it only waits, and imports little to start fast.

python -m benchmarks.simulated_job FOLDER_OF_THE_JOB SECONDS
"""

import sys
import time
from pathlib import Path

from services.core.process.reporter import Reporter

if __name__ == "__main__":
    time.sleep(float(sys.argv[2]))
    Reporter(Path(sys.argv[1])).finish(tokens=1)
