# SPDX-License-Identifier: MIT
"""The promises of tamis.Once, with threads and processes.  (Processes that are killed are in test_once_model.py.)"""
import asyncio
import concurrent.futures
import errno
import os
import resource
import subprocess
import sys
import threading
import time

import pytest
import tamis
from together import forked


def test_the_recipe(tmp_path):
    path = tmp_path / "done"
    with tamis.Once(path, 1000) as once:
        with once.claim("a") as first:
            assert first is True and "a" not in once
        with once.claim("a") as first:
            assert first is False
        assert "a" in once and "b" not in once
        with pytest.raises(ZeroDivisionError):
            with once.claim("b") as first:
                assert first
                raise ZeroDivisionError
        with once.claim("b") as first:
            assert first  # it was not recorded
        once.sync()
    with tamis.Once(path) as again:
        assert "a" in again and "b" in again
        buffer = bytearray(b"c")
        for id in buffer, memoryview(buffer):
            with again.claim(id):
                buffer[0] += 1  # the next message comes
        assert "c" in again and "d" in again and "e" not in again
    for bad in 1.5, None, "\ud800":
        with pytest.raises((TypeError, UnicodeEncodeError)):
            again.claim(bad)


def test_a_task(tmp_path):
    """Of tasks that get one message, one works it, and the others wait without holding up the loop."""
    once, log, ticked = tamis.Once(tmp_path / "done", 1000), [], asyncio.Event()

    async def work(number):
        async with once.claim("a", timeout=60) as first:
            if first:
                await ticked.wait()  # others run
            log.append((number, first))

    async def tick():
        for _ in range(10):
            await asyncio.sleep(0.01)
        log.append("tick")
        ticked.set()

    async def all_of_them():
        await asyncio.gather(*map(work, range(5)), tick())
        with pytest.raises(ZeroDivisionError):
            async with once.claim("b"):
                raise ZeroDivisionError
        async with once.claim("b") as first:
            assert first  # it was not recorded
            with pytest.raises(RuntimeError, match="this task"):
                async with once.claim("b"):
                    pass
            with pytest.raises(RuntimeError, match="this thread"):
                with once.claim("b"):
                    pass

    asyncio.run(all_of_them())
    assert log[0] == "tick" and sorted(first for _, first in log[1:]) == [False] * 4 + [True] and log[1][1]
    assert "a" in once and "b" in once and repr(once).endswith(", 2 done>") and "'c'" in repr(once.claim("c"))


def test_a_task_that_waits(tmp_path):
    """It waits for threads, and for processes, whose claims those of another object on the file stand for."""
    once = tamis.Once(tmp_path / "done", 1000)
    done, claimed = threading.Event(), threading.Event()

    def hold():
        with once.claim("a"):
            claimed.set()
            done.wait()

    async def wait():
        with pytest.raises(TimeoutError, match="another task, thread or process"):
            async with once.claim("a", timeout=0.1):
                pass
        waiting = asyncio.ensure_future(once.claim("a").__aenter__())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        asyncio.get_running_loop().call_later(0.1, done.set)
        async with once.claim("a") as first:
            assert not first

    def wait_for_ever():
        with once.claim("a", timeout=float("inf")) as first:
            assert not first

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(hold)]
        claimed.wait()
        threads.append(pool.submit(wait_for_ever))
        asyncio.run(wait())
        for thread in threads:
            thread.result()
    with once.claim("a", timeout=0) as first:  # nothing is left of the tries
        assert not first


def test_a_task_waits_for_another_process(tmp_path):
    program = """import sys, tamis, time
with tamis.Once(sys.argv[1], 1000).claim("a"):
    print("claimed", flush=True)
    time.sleep(0.3)
"""
    once = tamis.Once(tmp_path / "done", 1000)

    async def wait():
        async with once.claim("a") as first:
            return first

    with subprocess.Popen([sys.executable, "-c", program, tmp_path / "done"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "claimed\n"
        begun = time.monotonic()
        assert asyncio.run(wait()) is False and time.monotonic() - begun > 0.1


def test_options(tmp_path):
    for options, words in [
            (dict(remember=0), "remember is 0; it must be at least 0.8"), (dict(remember=-1), "remember is -1"),
            (dict(remember=float("nan")), "remember is nan"), (dict(remember=0.7), "remember is 0.7"),
            (dict(remember=9, periods=0), "periods is 0"), (dict(remember=9, periods=65), "periods is 65"),
            (dict(fpp=2), "fpp is 2"), (dict(capacity=0), "capacity is 0"), (dict(remember=9, max_bytes=99), "max_bytes is 99")]:
        with pytest.raises(ValueError, match=words):
            tamis.Once(tmp_path / "new", **{"capacity": 100, **options})
    for periods in range(1, 65):  # its own rate is one that the window can have
        tamis.Once(tmp_path / "window", 10**6, remember=100, periods=periods)
        os.unlink(tmp_path / "window")
    tamis.Once(tmp_path / "window", 100, remember=100, max_bytes=10**6)
    with pytest.raises(FileNotFoundError):
        tamis.Once(tmp_path / "new")
    tamis.Once(tmp_path / "new", 100)
    with pytest.raises(ValueError, match="capacity is 200"):
        tamis.Once(tmp_path / "new", 200)


def test_a_full_disk(tmp_path):
    """One message is worked and not recorded; it is as soon as there is room, and no other one is worked before."""
    once, worked = tamis.Once(tmp_path / "done", 1000), []

    class Disk:
        def __getattr__(self, name):
            return getattr(done, name)

        def __contains__(self, id):
            return id in done

        def add_copy(self, *id, **periods):
            if is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done.add_copy(*id, **periods)

    def handle(id):
        with once.claim(id) as first:
            if first:
                worked.append(id)

    handle("a")
    done, once.done, is_full = once.done, Disk(), True
    handle("a")
    for id in "b", "c", "b":
        with pytest.raises(OSError, match="No space"):
            handle(id)
    is_full = False
    for id in "b", "c", "b":
        handle(id)
    assert worked == ["a", "b", "c"] and all(id in once for id in worked)


def test_a_claim_within_a_claim_of_the_same_message(tmp_path):
    once, other = tamis.Once(tmp_path / "done", 1000), tamis.Once(tmp_path / "done", 1000)
    for one in once, other:
        with once.claim("a"):
            for timeout in None, 0:
                with pytest.raises(RuntimeError, match="this thread"):
                    with one.claim("a", timeout):
                        pass
            with one.claim("b"):
                pass
    once.close()
    with pytest.raises(ValueError, match="closed"):
        once.claim("a")
    with other.claim("a") as first:
        assert first is False


def test_another_file_at_the_path(tmp_path, monkeypatch):
    """The claims and the record are of one file, although the path leads to another one since it was opened."""
    path, real = tmp_path / "done", os.open

    def replaced(name, flags, *mode):
        monkeypatch.setattr("os.open", real)
        os.unlink(path)
        tamis.Once(path, 1000)
        return real(name, flags, *mode)

    monkeypatch.setattr("os.open", replaced)
    once, other = tamis.Once(path, 1000), tamis.Once(path, 1000)
    with once.claim("a") as first:
        assert first
        with pytest.raises(RuntimeError):
            other.claim("a").__enter__()
    assert "a" in other and sorted(os.listdir(tmp_path)) == ["done"]


def test_what_is_remembered_for_a_time(tmp_path):
    """Other options than those of the file.  (For how long: test_once_model.py.)"""
    options = dict(capacity=1000, fpp=1e-6, remember=80, periods=8)
    tamis.Once(tmp_path / "done", **options), tamis.Once(tmp_path / "ever", 1000)
    for wrong in dict(remember=None), dict(remember=80, periods=4):
        with pytest.raises(ValueError):
            tamis.Once(tmp_path / "done", **{**options, **wrong})
    with pytest.raises(ValueError, match="for ever"):
        tamis.Once(tmp_path / "ever", remember=80)


def test_forked_children_claim_for_themselves(tmp_path):
    once = tamis.Once(tmp_path / "done", 1000)

    def claim_both():
        with pytest.raises(TimeoutError), once.claim("b", timeout=5), once.claim("a", timeout=0.05):
            pass

    with once.claim("a") as first:
        assert first and forked(claim_both) == 0
    assert "a" in once and "b" not in once


def test_a_process_without_standard_streams(tmp_path, spawned):
    """What prints to them writes nowhere, and not into the file."""
    spawned("""import os, sys, tamis
for stream in range(3):
    os.close(stream)
once = tamis.Once(sys.argv[1], 1000)
with once.claim("a"):
    for stream in range(3):
        try:
            os.write(stream, b"printed")
        except OSError:
            pass
""", tmp_path / "done")
    assert "a" in tamis.Once(tmp_path / "done", 1000)


def test_a_forked_child_that_cannot_open_the_file_claims_nothing(tmp_path):
    once, first_free = tamis.Once(tmp_path / "done", 1000), os.dup(0)
    os.close(first_free)

    def claim():
        for id in "a", "b":
            with pytest.raises(OSError, match="could not open"), once.claim(id):
                pass

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with once.claim("a"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, limits[1]))
        child = os.fork()
        if child == 0:
            try:
                claim()
                os._exit(0)
            finally:
                os._exit(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert os.waitpid(child, 0)[1] == 0
    assert "a" in once
