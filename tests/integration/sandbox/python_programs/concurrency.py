"""Threads, processes and event loops."""

from tests.integration.sandbox.python_programs.program import Program


def processes(method: str, difference_in_container: str | None = None) -> Program:
    """A program that uses processes started in this way."""
    source = f"""
        import multiprocessing as mp
        import os

        def square(number):
            return number * number

        def send(queue):
            queue.put(("child", __name__, mp.current_process().name, mp.parent_process().name))
            raise SystemExit(3)

        if __name__ == "__main__":
            mp.set_start_method("{method}")
            queue = mp.Queue()
            process = mp.Process(target=send, args=(queue,))
            process.start()
            print(queue.get())
            process.join()
            print(process.exitcode, mp.active_children(), mp.current_process())
            with mp.Pool(2) as pool:
                print(pool.map(square, range(5)))
            value = mp.Value("i", 3)
            with value.get_lock():
                value.value += 1
            print(value.value)
    """
    return Program(source, difference_in_container=difference_in_container)


PROGRAMS = {
    "processes by fork": processes("fork"),
    "processes by spawn": processes("spawn"),
    "processes by a server": processes("forkserver", "there are no sockets but pairs of them"),
    "process that fails": Program("""
        import multiprocessing

        def fail():
            raise ValueError("in a process")

        process = multiprocessing.Process(target=fail)
        process.start()
        process.join()
        print(process.exitcode)
    """),
    "shared memory": Program("""
        from multiprocessing import shared_memory
        block = shared_memory.SharedMemory(create=True, size=1000)
        block.buf[:3] = b"abc"
        other = shared_memory.SharedMemory(name=block.name)
        print(bytes(other.buf[:3]))
        other.close()
        block.close()
        block.unlink()
    """),
    "pool of processes": Program("""
        from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

        def double(number):
            return number * 2

        def fail(number):
            raise KeyError(number)

        if __name__ == "__main__":
            with ProcessPoolExecutor(2) as processes, ThreadPoolExecutor(2) as threads:
                print(list(processes.map(double, range(4))), list(threads.map(double, range(4))))
                print(repr(threads.submit(fail, 1).exception()))
                print(repr(processes.submit(fail, 2).exception()))
    """),
    "executor that is not shut down": Program("""
        import threading, time
        from concurrent.futures import ThreadPoolExecutor

        main_ends = threading.Event()

        def late():
            main_ends.wait()
            time.sleep(0.05)
            print("late")

        ThreadPoolExecutor().submit(late)
        print("main ends")
        main_ends.set()
    """),
    "event loop": Program(
        """
        import asyncio

        async def number(value):
            await asyncio.sleep(0.001 * value)
            return value

        async def main():
            print(await asyncio.gather(*map(number, [2, 1])))
            print(await asyncio.to_thread(sum, [1, 2]))
            child = await asyncio.create_subprocess_exec("echo", "hi", stdout=-1)
            print(await child.communicate())
            server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            print(await reader.read())
            writer.close()
            server.close()
            async with asyncio.TaskGroup() as group:
                group.create_task(number(1))
                group.create_task(fail())

        async def fail():
            raise ValueError("in a task")

        asyncio.run(main())
        """,
        difference_in_container="there is no network of its own, and so none at all",
    ),
    "task that nobody awaits": Program("""
        import asyncio

        async def fail():
            raise ValueError("lost")

        async def main():
            task = asyncio.create_task(fail())
            await asyncio.sleep(0)
            del task
            fail()

        asyncio.run(main())
    """),
    "interrupted event loop": Program("""
        import asyncio, os, signal

        async def main():
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(5)

        asyncio.run(main())
    """),
    "python in a child": Program("""
        import subprocess, sys
        run = subprocess.run(
            [sys.executable, "-c", "import sys; print(sys.argv, input()); sys.exit(3)", "a"],
            input="text", capture_output=True, text=True,
        )
        print(run)
        subprocess.run([sys.executable, "-c", "1/0"], check=True)
    """),
    "child that takes too long": Program("""
        import subprocess
        try:
            subprocess.run(["sleep", "600"], timeout=0.05)
        except subprocess.TimeoutExpired as error:
            print(error.cmd, round(error.timeout, 2))
    """),
    "local server": Program(
        """
        import http.server, threading, urllib.request

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"served " + self.path.encode())
            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://localhost:{server.server_address[1]}/x"
        print(urllib.request.urlopen(url).read())
        server.shutdown()
        """,
        difference_in_container="there is no network of its own, and so none at all",
    ),
    "thread-local and timer": Program("""
        import threading
        local = threading.local()
        local.value = 1

        def run():
            print(hasattr(local, "value"), threading.current_thread().name)

        timer = threading.Timer(0.01, run)
        timer.name = "timer"
        timer.start()
        timer.join()
        for _ in range(2):
            thread = threading.Thread(target=lambda: print(threading.current_thread().name))
            thread.start()
            thread.join()
    """),
    "many threads": Program("""
        import queue, threading
        work, results = queue.Queue(), []

        def worker():
            while (item := work.get()) is not None:
                results.append(item * item)

        threads = [threading.Thread(target=worker) for _ in range(8)]
        for thread in threads:
            thread.start()
        for number in range(100):
            work.put(number)
        for _ in threads:
            work.put(None)
        for thread in threads:
            thread.join()
        print(sum(results), threading.active_count())
    """),
    "numbers of processes": Program("""
        import os, threading
        print(os.getpid() == threading.get_native_id(), os.getpgid(0) == os.getpgrp())
        child = os.fork()
        if child == 0:
            os._exit(threading.main_thread().native_id != os.getpid())
        print(os.waitpid(child, 0)[1])
    """),
}
