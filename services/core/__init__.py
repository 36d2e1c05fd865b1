"""The job machine, and what all processes share: settings, database, workers, processes, web."""
