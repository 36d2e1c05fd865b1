"""The core environment's installer. Only the standard library is imported here."""
