"""The ``temper`` command: one module per command group."""
