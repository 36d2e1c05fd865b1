"""The sandbox: programs, test cases, sessions and scripts."""
