# SPDX-License-Identifier: MIT
"""Threads and processes, as several tests have them."""
import concurrent.futures
import multiprocessing
import os
import signal
import sys


def run(*bodies):
    """Runs them in threads, and raises what one of them has raised, when all have ended."""
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        for ended in [pool.submit(body) for body in bodies]:
            ended.result()


def in_child(context, target, *arguments):
    """What target(*arguments, results), in a child of multiprocessing, puts into `results`."""
    results = context.SimpleQueue()
    process = context.Process(target=target, args=(*arguments, results))
    process.start()
    said = results.get()
    process.join()
    assert process.exitcode == 0
    return said


def forked(body):
    """The exit status of a forked child that runs body(): 0 if that returns, and 1 if it raises."""
    child = multiprocessing.get_context("fork").Process(target=body)
    child.start()
    child.join()
    return child.exitcode


def kill_at_line(number, file, functions=None):
    """Kills this process at the line with this number of those that it executes in a file, or in functions of it."""
    left = number

    def trace(frame, event, _):
        nonlocal left
        code = frame.f_code
        if code.co_filename != file or functions is not None and code.co_name not in functions:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
