"""Assembles a table of system calls into a seccomp program.

libseccomp cannot express "these arguments are allowed, all others get this errno" for one call: its
rules are mutually exclusive or fall back to the filter's default action. Programs notice the
difference: they retry a socket family that is "not supported" but not a call that is "not
implemented". So the instructions are generated here.

Calls form a binary tree over their numbers, because on installation, which happens in every run,
the kernel walks the program once for each of several hundred calls.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ALLOW = 0x7FFF_0000
KILL = 0x8000_0000
_ERROR = 0x0005_0000

# offsets in the kernel's struct seccomp_data; both architectures are little-endian
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _RETURN, _JUMP, _JUMP_EQUAL, _JUMP_AT_LEAST = 0x20, 0x54, 0x06, 0x05, 0x15, 0x35
_LAYOUT = struct.Struct("=HBBI")
_LONGEST_JUMP = 0xFF
_MAX_INSTRUCTIONS = 4096
_ALL_BITS = 0xFFFF_FFFF


def error(number: int) -> int:
    """The action that fails a call with this errno; zero means success without effect."""
    return _ERROR | number


@dataclass(frozen=True)
class ArgumentMatch:
    """Matches if the lower 32 bits of an argument, under ``mask``, are one of ``values``.

    Only for arguments that the kernel itself truncates to 32 bits or fewer.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL_BITS


@dataclass(frozen=True)
class Clause:
    """The action for a call if all ``matches`` hold."""

    matches: tuple[ArgumentMatch, ...]
    action: int


@dataclass(frozen=True)
class Rule:
    """The action for a call: that of the first matching clause, or ``otherwise``."""

    otherwise: int
    clauses: tuple[Clause, ...] = ()


def assemble(machine: int, rules: Mapping[int, Rule], *, unknown: Rule, forbidden: range) -> bytes:
    """Assemble the program: an array of ``struct sock_filter``.

    Calls of an ABI other than ``machine`` (an AUDIT_ARCH constant) and numbers in ``forbidden``
    kill the process; calls missing from ``rules`` get ``unknown``.
    """
    program = [
        _Instruction(_LOAD, _MACHINE),
        _Instruction(_JUMP_EQUAL, machine, 1, 0),
        _Instruction(_RETURN, KILL),
        _Instruction(_LOAD, _NUMBER),
        *_tree(_leaves(rules, unknown, forbidden)),
    ]
    if len(program) > _MAX_INSTRUCTIONS:
        raise ValueError("the filter exceeds the kernel's limit")
    return b"".join(_LAYOUT.pack(one.code, one.if_true, one.if_false, one.value) for one in program)


class _Instruction(NamedTuple):
    """One instruction; jump offsets count instructions to skip."""

    code: int
    value: int = 0
    if_true: int = 0
    if_false: int = 0


@dataclass(frozen=True)
class _Leaf:
    """The rule for all numbers from ``first`` up to the next leaf's."""

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
        # If the last comparison fails, skip the rest of the clause.
        tests[-1] = tests[-1]._replace(if_false=len(program))
        load = _Instruction(_LOAD, _ARGUMENTS + 8 * match.argument)
        mask = [] if match.mask == _ALL_BITS else [_Instruction(_AND, match.mask)]
        program = [load, *mask, *tests, *program]
    return program
