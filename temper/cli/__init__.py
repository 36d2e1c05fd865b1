"""The ``temper`` command: one module a command group."""
