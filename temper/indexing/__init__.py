"""Working on indexes from the command line, without the platform."""
