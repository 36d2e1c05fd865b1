"""Run the evaluator's worker: ``python -m services.evaluator``."""

from services.evaluator.worker import main

if __name__ == "__main__":
    main()
