"""``python -m temper`` is the command line."""

import sys

from temper.cli.main import main

sys.exit(main())
