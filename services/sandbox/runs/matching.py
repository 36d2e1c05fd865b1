"""Whether a program printed what was expected."""

from services.contracts.sandbox_cases import Match


def matches(stdout: bytes, expected: str, rule: Match) -> bool:
    """Compare a whole output with the expected text.

    By `Match.LINES` the white space at the end of each line does not count (so that Windows'
    line ends are no difference), and neither do empty lines at the end.
    """
    wanted = expected.encode()
    if stdout == wanted:
        return True
    return rule is Match.LINES and _lines(stdout) == _lines(wanted)


def _lines(text: bytes) -> list[bytes]:
    return [line.rstrip() for line in text.rstrip().split(b"\n")]
