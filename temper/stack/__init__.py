"""The local stack: the services of one machine, started, supervised and stopped together."""
