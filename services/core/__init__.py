"""The job machine and what every process shares: settings, database, workers, processes, web."""
