"""The languages: a declaration each, and what turns one into executions."""
