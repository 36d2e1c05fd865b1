"""The init process of a run's pid namespace, as small as possible.

When it dies, the kernel kills every process in the namespace; until then it adopts orphans. A fork
of Python would cost more than the program it is for, so it is an ELF file of a few instructions
that read standard input, a pipe, until end of file, and exit: it dies with the slot that holds the
other end. It is started with SIGCHLD ignored, so the kernel reaps orphans.
"""

import platform
import struct

PATH = "/.reaper"
"""Its path in the minimal root."""

_X86_64 = bytes.fromhex(
    "31c0"  # again: xor eax, eax             read(2)
    "31ff"  # xor edi, edi                    standard input
    "488d7424f8"  # lea rsi, [rsp - 8]
    "ba01000000"  # mov edx, 1
    "0f05"  # syscall
    "85c0"  # test eax, eax
    "7fec"  # jg again
    "b83c000000"  # mov eax, 60               exit(2)
    "31ff"  # xor edi, edi
    "0f05"  # syscall
)
_AARCH64 = struct.pack(
    "<10I",
    0xD28007E8,  # again: mov x8, 63           read(2)
    0xD2800000,  # mov x0, 0                  standard input
    0xD10043E1,  # sub x1, sp, 16
    0xD2800022,  # mov x2, 1
    0xD4000001,  # svc 0
    0xF100001F,  # cmp x0, 0
    0x54FFFF4C,  # b.gt again
    0xD2800BA8,  # mov x8, 93                 exit(2)
    0xD2800000,  # mov x0, 0
    0xD4000001,  # svc 0
)
_MACHINES = {"x86_64": (62, _X86_64), "aarch64": (183, _AARCH64)}
_HEADER = struct.Struct("<4s12sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ADDRESS = 0x400000


def executable() -> bytes:
    """The ELF file for this machine; raises OSError on an unsupported architecture."""
    try:
        machine, code = _MACHINES[platform.machine()]
    except KeyError:
        raise OSError(f"the sandbox does not support {platform.machine()}") from None
    start = _HEADER.size + _SEGMENT.size
    size = start + len(code)
    identity = bytes([2, 1, 1]).ljust(12, b"\0")  # 64-bit, little-endian
    sizes = (_HEADER.size, _SEGMENT.size, 1, 0, 0, 0)
    header = _HEADER.pack(
        b"\x7fELF", identity, 2, machine, 1, _ADDRESS + start, _HEADER.size, 0, 0, *sizes
    )
    readable_and_executable = 5
    segment = _SEGMENT.pack(1, readable_and_executable, 0, _ADDRESS, _ADDRESS, size, size, 0x1000)
    return header + segment + code
