"""What ended a training, out of all that ended with it."""

from services.contracts.errors import TemperError


def cause_of(error: BaseException) -> BaseException:
    """The first error on purpose in a group of errors, else the first of all; an error that is
    no group is its own cause."""
    leaves = _leaves(error)
    return next((leaf for leaf in leaves if isinstance(leaf, TemperError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]
