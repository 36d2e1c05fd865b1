"""The installer of the runtimes. Only the standard library is imported here."""
