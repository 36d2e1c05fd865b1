"""Installs what the tests need beyond Python packages: ``python infra/testing/install.py``.

What is not available here is reported with the reason, and the tests that need it are skipped;
where the variable CI is set, that is a failure instead.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.testing.command import main

if __name__ == "__main__":
    sys.exit(main())
