"""What all processes share: settings, the database, child processes, web."""
