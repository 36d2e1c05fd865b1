"""Network access of programs: a proxy to the destinations on an allow-list."""
