"""Child processes: runtimes, supervision, and the protocol of their reports."""
