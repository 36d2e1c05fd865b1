"""Submission of job files to the gateway."""
