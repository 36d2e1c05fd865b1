"""Calling Python functions that the operator allows, where they can do no harm to a job."""
