"""Installs runtimes: ``python infra/runtimes/install.py training vllm``; see README.md beside it.

Needs nothing but Python 3.11 or newer with its ``venv``.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.runtimes.installer.command import main

if __name__ == "__main__":
    sys.exit(main())
