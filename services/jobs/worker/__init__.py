"""Shared by all workers: claim a job, run its child, record its reports."""
