from tests.unit.sandbox.languages.toys import add_program

__all__ = ["add_program"]
