"""The local stack: the services of one machine, started, watched and ended together."""
