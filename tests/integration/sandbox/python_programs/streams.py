"""Programs that read and write streams in every way."""

from tests.integration.sandbox.python_programs.program import Program

LINES = b"first line\nsecond\r\nthird \xc3\xa9\n\nlast without end"

PROGRAMS = {
    "about the streams": Program(
        """
        import sys
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            print(stream, stream.buffer, stream.buffer.raw)
            print(stream.mode, stream.buffer.mode, stream.name, stream.fileno(), stream.isatty())
            print(stream.encoding, stream.errors, stream.newlines, stream.line_buffering)
            print(stream.write_through, stream.readable(), stream.writable(), stream.seekable())
            print(stream.buffer.raw.closefd, stream.buffer.raw._blksize, stream._CHUNK_SIZE)
            print(type(stream.buffer), stream is getattr(sys, f"__{stream.name[1:-1]}__"))
        """,
        stdin=b"x",
    ),
    "nothing to read": Program("""
        import sys
        print(repr(sys.stdin.read()), repr(sys.stdin.readline()), list(sys.stdin))
        print(repr(sys.stdin.buffer.read()))
    """),
    "input at the end": Program("name = input('who? ')\nprint(name)\n"),
    "input": Program(
        "print(repr(input('prompt> ')), repr(input()))\nprint(input(), input(), input())\n",
        stdin=LINES,
    ),
    "lines": Program(
        "import sys\nfor line in sys.stdin:\n    print(repr(line))\nprint(sys.stdin.newlines)\n",
        stdin=LINES,
    ),
    "input, then the rest": Program(
        "import sys\nprint(input())\nprint(repr(sys.stdin.read()))\n", stdin=LINES
    ),
    "first line by the descriptor": Program(
        "import os, sys\nprint(os.read(0, 5))\nprint(repr(sys.stdin.read()))\n", stdin=LINES
    ),
    "binary": Program(
        """
        import sys
        data = sys.stdin.buffer.read()
        sys.stdout.buffer.write(data[::-1])
        sys.stderr.buffer.write(data)
        """,
        stdin=bytes(range(256)),
    ),
    "wrong bytes as text": Program(
        "text = input()\nprint(ascii(text))\nprint(text)\n", stdin=b"a\xffb\n"
    ),
    "file input": Program(
        "import fileinput\nfor line in fileinput.input():\n    print(fileinput.lineno(), line)\n",
        stdin=LINES,
    ),
    "open of 0": Program(
        "print(open(0).read())\nprint(open('/dev/stdin').read() == '')\n", stdin=LINES
    ),
    "large": Program(
        """
        import sys
        text = sys.stdin.read()
        print(len(text), sum(map(int, text.split())))
        sys.stdout.write(text)
        """,
        stdin=b"".join(b"%d\n" % number for number in range(200_000)),
    ),
    "buffer of stdin": Program(
        """
        import fcntl, os, struct, sys, termios, time

        def waiting():
            return struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0]

        while waiting() < 20011:  # until all has been written
            time.sleep(0.001)
        sys.stdin.readline()
        print(len(os.read(0, 100000)))
        """,
        stdin=b"x" * 10 + b"\n" + b"y" * 20000,
    ),
    "child that reads the rest": Program(
        """
        import subprocess, sys
        print(sys.stdin.buffer.raw.read(6), flush=True)
        subprocess.run(["cat"], check=True)
        """,
        stdin=LINES,
    ),
    "closed stdin": Program("import sys\nsys.stdin.close()\nprint(1)\ninput()\n", stdin=b"x\n"),
    "no stdin": Program("import sys\nsys.stdin = None\nprint(1)\ninput()\n", stdin=b"x\n"),
    "interleaved": Program("""
        import os, sys
        print("text", end=" ")
        sys.stderr.write("error ")
        sys.stdout.flush()
        os.write(1, b"raw\\n")
        sys.stdout.buffer.write(b"binary\\n")
        print("after")
    """),
    "no newline": Program("print('end', end='')\n"),
    "carriage returns and nulls": Program("print('a\\r\\nb\\0c\\x1b[1m')\n"),
    "characters outside of ASCII": Program("print('\u00e9\u4e2d\U0001f600')\n"),
    "lone surrogates": Program("print('\\udc80')\nprint('\\ud800')\n"),
    "surrogates on stderr": Program("import sys\nprint('\\ud800 \\udc80', file=sys.stderr)\n"),
    "closed stdout": Program("import sys\nprint('kept')\nsys.stdout.close()\nprint('x')\n"),
    "closed stdout at exit": Program("import sys\nprint('kept')\nsys.stdout.close()\n"),
    "closed descriptor of stdout": Program("import os\nprint('lost')\nos.close(1)\n"),
    "closed descriptor after an exit": Program(
        "import os, sys\nprint('lost')\nos.close(1)\nsys.exit(3)\n"
    ),
    "closed descriptor after an error": Program("import os\nprint('lost')\nos.close(1)\n1 / 0\n"),
    "closed descriptor with a hook": Program("""
        import os, sys
        sys.unraisablehook = lambda args: os.write(
            2, f"{args.exc_value} {args.object} {args.err_msg} {args.exc_traceback}".encode()
        )
        print("lost")
        os.close(1)
    """),
    "full device": Program(
        "import sys\nsys.stdout = open('/dev/full', 'w')\nprint('x')\n",
    ),
    "closed descriptor of stderr": Program("""
        import os, sys
        os.close(2)
        print("a", file=sys.stderr)
    """),
    "closed stderr": Program("import sys\nsys.stderr.close()\nprint(1)\nraise ValueError(1)\n"),
    "no stdout": Program("import sys\nsys.stdout = None\nprint(1)\n"),
    "no stderr": Program("import sys\nsys.stderr = None\nprint(1)\nraise ValueError(1)\n"),
    "redirected stdout": Program("""
        import contextlib, io
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("inside")
        print(repr(text.getvalue()))
    """),
    "stdout replaced for good": Program("""
        import sys
        sys.stdout = open("out.txt", "w")
        print("into the file")
        import atexit, os
        atexit.register(lambda: os.write(1, b"handler"))
    """),
    "stdout that fails to flush": Program("""
        import sys

        class Odd:
            def write(self, text):
                pass
            def flush(self):
                raise OSError("no flush")

        sys.stdout = Odd()
        print("x")
        raise SystemExit(5)
    """),
    "stdout detached": Program(
        "import sys\nraw = sys.stdout.detach()\nraw.write(b'bytes')\nraw.flush()\n"
    ),
    "stdout reconfigured": Program("""
        import os, sys
        sys.stdout.reconfigure(line_buffering=True, encoding="latin-1")
        print("\\xe9")
        os._exit(0)
    """),
    "own text layer": Program("""
        import io, sys
        sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-16")
        print("wide")
    """),
    "broken pipe to a child": Program("""
        import subprocess, sys
        child = subprocess.Popen(["true"], stdin=subprocess.PIPE)
        child.wait()
        child.stdin.write(b"x" * 100000)
    """),
    "output of children": Program("""
        import os, subprocess
        print("parent")
        subprocess.run(["echo", "child"])
        os.system("echo shell; echo error >&2; exit 3")
        print(os.popen("echo popen").read())
    """),
}
