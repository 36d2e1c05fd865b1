"""The job machine: one row per job, a table of status transitions, an event for each.

Every function takes the caller's session, so that a job, its wake-up, its event and its
idempotency record are one transaction. Every write to a claimed job checks the epoch of the
claim: a worker that lost its lease can change nothing.
"""
