"""How the package is built from the folders of the repository."""
