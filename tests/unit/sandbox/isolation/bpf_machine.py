"""The parts of the kernel's seccomp BPF machine that are used."""

import struct


def evaluate(program: bytes, machine: int, number: int, arguments: list[int]) -> int:
    """What the kernel makes of the program for one call."""
    data = struct.pack("=IIQ6Q", number, machine, 0, *arguments)
    instructions = list(struct.iter_unpack("=HBBI", program))
    place = accumulator = 0
    while True:
        code, if_true, if_false, value = instructions[place]
        place += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x54:
                accumulator &= value
            case 0x05:
                place += value
            case 0x15:
                place += if_true if accumulator == value else if_false
            case 0x35:
                place += if_true if accumulator >= value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")
