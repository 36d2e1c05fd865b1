"""The standard streams of a program, over real pipes."""

import asyncio
import fcntl
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from services.sandbox.execution import Stream
from services.sandbox.pool.streams import Input, ProgramOutput

SECONDS = 30
MEGABYTE = 1 << 20


def run(test: Callable[[], Awaitable[None]]) -> None:
    before = open_pipes()

    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await test()

    asyncio.run(limited())
    assert open_pipes() <= before


def open_pipes() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("pipe:")}


class Program:
    """A thread with the program's end of a pipe."""

    def __init__(self, work: Callable[[int], None], end: int) -> None:
        self._thread = threading.Thread(target=self._run, args=(work, os.dup(end)))

    @staticmethod
    def _run(work: Callable[[int], None], end: int) -> None:
        try:
            work(end)
        finally:
            os.close(end)

    async def ended(self) -> None:
        self._thread.start()
        await asyncio.to_thread(self._thread.join, SECONDS)
        assert not self._thread.is_alive()


def writing(*pieces: bytes) -> Callable[[int], None]:
    def work(end: int) -> None:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(end, left) :]

    return work


def test_all_output_is_kept_and_reported_in_order() -> None:
    async def test() -> None:
        told: list[tuple[Stream, bytes]] = []
        output = ProgramOutput(Stream.STDERR, 10 * MEGABYTE, lambda *piece: told.append(piece))
        pieces = [b"%d " % number * 1000 for number in range(300)]
        program = Program(writing(*pieces), output.write_end)
        output.started()
        await program.ended()
        output.finish()

        assert output.kept == b"".join(pieces)
        assert not output.cut
        assert b"".join(piece for _, piece in told) == output.kept
        assert {stream for stream, _ in told} == {Stream.STDERR}

    run(test)


@pytest.mark.parametrize("excess", [0, 1, 3 * MEGABYTE])
def test_output_is_kept_up_to_its_limit(excess: int) -> None:
    async def test() -> None:
        told: list[bytes] = []
        output = ProgramOutput(Stream.STDOUT, MEGABYTE, lambda _, piece: told.append(piece))
        program = Program(writing(b"x" * MEGABYTE, b"y" * excess), output.write_end)
        output.started()
        await program.ended()
        output.finish()

        assert output.kept == b"x" * MEGABYTE
        assert b"".join(told) == output.kept
        assert output.cut == (excess > 0)

    run(test)


def test_a_limit_of_zero_keeps_nothing() -> None:
    async def test() -> None:
        output = ProgramOutput(Stream.STDOUT, 0, None)
        program = Program(writing(b"x"), output.write_end)
        output.started()
        await program.ended()
        output.finish()

        assert (output.kept, output.cut) == (b"", True)

    run(test)


def test_output_left_in_the_pipe_is_kept() -> None:
    async def test() -> None:
        output = ProgramOutput(Stream.STDOUT, 10 * MEGABYTE, None)
        fcntl.fcntl(output.write_end, fcntl.F_SETPIPE_SZ, MEGABYTE)
        end = os.dup(output.write_end)
        output.started()
        writing(b"x" * MEGABYTE)(end)
        os.close(end)
        output.finish()

        assert output.kept == b"x" * MEGABYTE

    run(test)


def test_finish_does_not_wait_for_a_writer() -> None:
    async def test() -> None:
        output = ProgramOutput(Stream.STDOUT, 1000, None)
        end = os.dup(output.write_end)
        stop = threading.Event()

        def flood() -> None:
            while not stop.is_set():
                try:
                    os.write(end, b"x" * 4096)
                except BrokenPipeError:
                    break

        flooding = [threading.Thread(target=flood) for _ in range(2)]
        output.started()
        for thread in flooding:
            thread.start()

        await asyncio.to_thread(lambda: None)
        output.finish()

        stop.set()
        for thread in flooding:
            thread.join()
        os.close(end)

    run(test)


def test_a_program_that_never_started_leaks_nothing() -> None:
    async def test() -> None:
        for stream in (ProgramOutput(Stream.STDOUT, 10, None), Input(b""), Input(b"x" * MEGABYTE)):
            stream.discard()

    run(test)


def reading(into: list[bytes], most: int = -1) -> Callable[[int], None]:
    def work(end: int) -> None:
        with open(end, "rb", closefd=False) as file:
            into.append(file.read(most))

    return work


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 5 * MEGABYTE])
def test_a_program_reads_all_of_its_input(size: int) -> None:
    async def test() -> None:
        data = os.urandom(size)
        given = Input(data)
        read: list[bytes] = []
        program = Program(reading(read), given.read_end)
        given.started()
        await program.ended()
        given.finish()

        assert read == [data]

    run(test)


@pytest.mark.parametrize("most", [0, 10, 100_000])
def test_unread_stdin_blocks_nothing(most: int) -> None:
    async def test() -> None:
        given = Input(b"x" * (50 * MEGABYTE))
        read: list[bytes] = []
        program = Program(reading(read, most), given.read_end)
        given.started()
        await program.ended()
        given.finish()

        assert read == [b"x" * most]

    run(test)


def test_stdin_is_a_file_that_cannot_be_changed() -> None:
    async def test() -> None:
        given = Input(b"12\n3")
        assert os.fstat(given.read_end).st_size == 4
        with pytest.raises(PermissionError):
            os.write(given.read_end, b"x")
        assert os.pread(given.read_end, 9, 1) == b"2\n3"
        given.discard()

    run(test)


def test_unread_stdin_can_be_finished() -> None:
    async def test() -> None:
        given = Input(b"x" * MEGABYTE)
        end = os.dup(given.read_end)
        given.started()
        await asyncio.sleep(0)
        given.finish()
        os.close(end)

    run(test)
