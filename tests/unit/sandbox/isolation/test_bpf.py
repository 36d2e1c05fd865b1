"""The assembled program decides every system call as the table does."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.isolation.bpf import ALLOW, KILL, ArgumentMatch, Clause, Rule, assemble, error
from tests.unit.sandbox.isolation.bpf_machine import evaluate

MACHINE = 0xC000_003E
UNKNOWN = Rule(error(38))
FOREIGN = range(0x4000_0000, 0xFFFF_FFFF)

words = st.one_of(st.integers(0, 20), st.integers(0, 2**32 - 1))
actions = st.sampled_from([ALLOW, KILL, error(1), error(22), error(0)])
matches = st.builds(
    ArgumentMatch,
    st.integers(0, 5),
    st.lists(words, min_size=1, max_size=60, unique=True).map(tuple),
    st.sampled_from([0xFFFF_FFFF, 0xFF, 0xF000]),
)
clauses = st.builds(Clause, st.lists(matches, min_size=1, max_size=3).map(tuple), actions)
rules = st.builds(Rule, actions, st.lists(clauses, max_size=4).map(tuple))
numbers = st.one_of(st.integers(0, 600), st.sampled_from([0x3FFF_FFFF, 0x4000_0001, 2**32 - 1]))
arguments = st.lists(
    st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1)), min_size=6, max_size=6
)


def decide(table: Mapping[int, Rule], number: int, arguments: list[int]) -> int:
    """What the table says."""
    if number in FOREIGN:
        return KILL
    rule = table.get(number, UNKNOWN)
    for clause in rule.clauses:
        if all(arguments[m.argument] & m.mask in m.values for m in clause.matches):
            return clause.action
    return rule.otherwise


@given(
    st.dictionaries(st.integers(0, 600), rules, max_size=120),
    st.lists(st.tuples(numbers, arguments), min_size=1, max_size=20),
)
def test_every_system_call_follows_the_table(
    table: dict[int, Rule], calls: list[tuple[int, list[int]]]
) -> None:
    program = assemble(MACHINE, table, unknown=UNKNOWN, forbidden=FOREIGN)

    for number, given_arguments in calls:
        words_only = [argument & 0xFFFF_FFFF for argument in given_arguments]
        assert evaluate(program, MACHINE, number, given_arguments) == decide(
            table, number, words_only
        )


@given(words.filter(lambda machine: machine != MACHINE), numbers)
def test_system_calls_of_another_architecture_kill(machine: int, number: int) -> None:
    program = assemble(MACHINE, {1: Rule(ALLOW)}, unknown=UNKNOWN, forbidden=FOREIGN)

    assert evaluate(program, machine, number, [0] * 6) == KILL


def test_long_rules_assemble_with_valid_jumps() -> None:
    long = Rule(error(1), (Clause((ArgumentMatch(0, tuple(range(200))),), ALLOW),) * 3)
    table = dict.fromkeys(range(0, 10, 2), long)

    program = assemble(MACHINE, table, unknown=UNKNOWN, forbidden=FOREIGN)

    assert evaluate(program, MACHINE, 8, [199, 0, 0, 0, 0, 0]) == ALLOW
    assert evaluate(program, MACHINE, 8, [200, 0, 0, 0, 0, 0]) == error(1)
    assert evaluate(program, MACHINE, 9, [0] * 6) == error(38)


def test_a_filter_beyond_the_kernel_limit_is_rejected() -> None:
    long = Rule(error(1), (Clause((ArgumentMatch(0, tuple(range(200))),), ALLOW),))

    with pytest.raises(ValueError, match="exceeds the kernel"):
        assemble(MACHINE, dict.fromkeys(range(0, 60, 2), long), unknown=UNKNOWN, forbidden=FOREIGN)
