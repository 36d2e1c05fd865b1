"""Data scripts: run in the sandbox without secrets, with LLMs through a metered proxy."""
