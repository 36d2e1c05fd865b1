"""Turns a table of system calls into a seccomp program.

libseccomp cannot say "these arguments are fine, any other gets this error" of one call: its rules
for a call either exclude each other or fall back to the error of the whole filter. Programs
notice the difference (a socket family that is "not supported" is tried again with another one, a
call that is "not implemented" is not), so the few instructions are laid out here.

The calls become a binary tree over their numbers: the kernel walks the program once for each of
its several hundred calls whenever one is installed, and that happens for every run.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ALLOW = 0x7FFF_0000
KILL = 0x8000_0000
_ERROR = 0x0005_0000

# offsets in the kernel's struct seccomp_data; both machines are little-endian
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _RETURN, _JUMP, _JUMP_EQUAL, _JUMP_AT_LEAST = 0x20, 0x54, 0x06, 0x05, 0x15, 0x35
_LAYOUT = struct.Struct("=HBBI")
_LONGEST_JUMP = 0xFF
_MOST_INSTRUCTIONS = 4096
_ALL_BITS = 0xFFFF_FFFF


def error(number: int) -> int:
    """The action that answers a call with this errno; zero is success without doing anything."""
    return _ERROR | number


@dataclass(frozen=True)
class Match:
    """An argument whose lower 32 bits, under ``mask``, are one of ``values``.

    Only for arguments that the kernel itself cuts to 32 bits or fewer.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL_BITS


@dataclass(frozen=True)
class Clause:
    """What happens to a call when all of ``matches`` hold."""

    matches: tuple[Match, ...]
    action: int


@dataclass(frozen=True)
class Rule:
    """What happens to one call: the first clause that holds, ``otherwise`` when none does."""

    otherwise: int
    clauses: tuple[Clause, ...] = ()


def assemble(machine: int, rules: Mapping[int, Rule], *, unknown: Rule, forbidden: range) -> bytes:
    """Return the program: an array of ``struct sock_filter``.

    Calls of another convention than that of ``machine`` (an AUDIT_ARCH constant) and numbers in
    ``forbidden`` kill the process; what ``rules`` lacks gets ``unknown``.
    """
    program = [
        _Instruction(_LOAD, _MACHINE),
        _Instruction(_JUMP_EQUAL, machine, 1, 0),
        _Instruction(_RETURN, KILL),
        _Instruction(_LOAD, _NUMBER),
        *_tree(_leaves(rules, unknown, forbidden)),
    ]
    if len(program) > _MOST_INSTRUCTIONS:
        raise ValueError("the filter is longer than the kernel takes")
    return b"".join(_LAYOUT.pack(one.code, one.if_true, one.if_false, one.value) for one in program)


class _Instruction(NamedTuple):
    """One instruction; a jump names how many of the following are passed over."""

    code: int
    value: int = 0
    if_true: int = 0
    if_false: int = 0


@dataclass(frozen=True)
class _Leaf:
    """The rule of all numbers from ``first`` up to the next leaf's."""

    first: int
    rule: Rule


def _leaves(rules: Mapping[int, Rule], unknown: Rule, forbidden: range) -> list[_Leaf]:
    at = {number + 1: unknown for number in rules} | {0: unknown}
    at |= rules
    if forbidden:
        at |= {forbidden.start: Rule(KILL), forbidden.stop: unknown}
    leaves: list[_Leaf] = []
    for first in sorted(at):
        if not leaves or leaves[-1].rule != at[first]:
            leaves.append(_Leaf(first, at[first]))
    return leaves


def _tree(leaves: Sequence[_Leaf]) -> list[_Instruction]:
    if len(leaves) == 1:
        return _body(leaves[0].rule)
    middle = len(leaves) // 2
    below, above = _tree(leaves[:middle]), _tree(leaves[middle:])
    pivot = leaves[middle].first
    if len(below) <= _LONGEST_JUMP:
        return [_Instruction(_JUMP_AT_LEAST, pivot, len(below), 0), *below, *above]
    test = _Instruction(_JUMP_AT_LEAST, pivot, 0, 1)
    return [test, _Instruction(_JUMP, len(below)), *below, *above]


def _body(rule: Rule) -> list[_Instruction]:
    clauses = [instruction for clause in rule.clauses for instruction in _clause(clause)]
    return [*clauses, _Instruction(_RETURN, rule.otherwise)]


def _clause(clause: Clause) -> list[_Instruction]:
    program = [_Instruction(_RETURN, clause.action)]
    for match in reversed(clause.matches):
        tests = [
            _Instruction(_JUMP_EQUAL, value, len(match.values) - 1 - place, 0)
            for place, value in enumerate(match.values)
        ]
        # The last test is where all have failed: the rest of the clause is passed over.
        tests[-1] = tests[-1]._replace(if_false=len(program))
        load = _Instruction(_LOAD, _ARGUMENTS + 8 * match.argument)
        mask = [] if match.mask == _ALL_BITS else [_Instruction(_AND, match.mask)]
        program = [load, *mask, *tests, *program]
    return program
