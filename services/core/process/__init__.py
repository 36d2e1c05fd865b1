"""Child processes: runtimes, supervision, servers, worker pools, and how children report."""
