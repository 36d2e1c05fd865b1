"""What tests of several layers share: running processes, free ports, polling with a deadline."""
