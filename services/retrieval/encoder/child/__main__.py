"""``python -m services.retrieval.encoder.child SOCKET SPECIFICATION``: run an encoder.

SPECIFICATION is an `EncoderSpecification` as JSON.
"""

import logging
import sys
from pathlib import Path

from services.retrieval.encoder.child.run import run
from services.retrieval.encoder.models.loading import load
from services.retrieval.encoder.specification import EncoderSpecification


def main() -> None:
    """Run the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    socket, specification = sys.argv[1:]
    run(Path(socket), EncoderSpecification.model_validate_json(specification), load)


if __name__ == "__main__":
    main()
