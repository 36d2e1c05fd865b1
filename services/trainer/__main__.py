"""Run the trainer's worker: ``python -m services.trainer``."""

from services.trainer.worker import main

if __name__ == "__main__":
    main()
