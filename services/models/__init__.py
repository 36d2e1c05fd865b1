"""Models: the registry, their files, their code and the memory that they need."""
