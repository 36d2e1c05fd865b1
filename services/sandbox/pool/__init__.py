"""A pool of warm processes; each program runs in a fresh fork of one."""
