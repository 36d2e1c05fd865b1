"""The job machine: one row, one table of allowed moves, one event for each.

Every function here takes the caller's session, so that a job, its wake-up, its event and its
idempotency record are one transaction. Every write to a claimed job carries the epoch of the
claim; a worker that lost its lease therefore can change nothing.
"""
