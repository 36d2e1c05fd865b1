"""The languages: a declaration of each, and what turns it into executions."""
