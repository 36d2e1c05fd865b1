"""The version of Temper: the package's, the gateway's and the command line's."""

VERSION = "0.2.0.dev0"
"""A development version up to its release; CHANGELOG.md says what it changes."""
