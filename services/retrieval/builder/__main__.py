"""The process that works on indexes: ``python -m services.retrieval.builder <folder>``.

It reads ``order.json`` in the core environment and ends with a result, or fails with its cause.
It may be killed at any time and started again on the same folder: a build goes on where it was.
Given the number of its parent's process as well, it ends with that.
"""

import signal
import sys
from pathlib import Path

from pydantic import TypeAdapter

from services.contracts.errors import TemperError
from services.contracts.index_messages import ORDER, Order
from services.core.process.reporter import Reporter
from services.retrieval.builder.orders import carry_out
from services.retrieval.corpus.checked import InvalidCorpus
from services.retrieval.parent import die_with_parent

_ORDER: TypeAdapter[Order] = TypeAdapter(Order)


def main(folder: Path) -> None:
    """Carry out the order in a folder; the outcome is in its result.json."""
    # Ends in order: an encoder of ours ends, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    reporter = Reporter(folder)
    order = _ORDER.validate_json((folder / ORDER).read_bytes())
    try:
        outcome = carry_out(order, folder, reporter)
    except InvalidCorpus as error:
        error.announce(reporter)
        reporter.fail(error.code, error.message, error.param)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)
    else:
        reporter.finish(**outcome.model_dump(mode="json"))


if __name__ == "__main__":
    for parent in sys.argv[2:]:
        die_with_parent(int(parent))
    main(Path(sys.argv[1]))
