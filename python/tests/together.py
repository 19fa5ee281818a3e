# SPDX-License-Identifier: MIT
"""Threads and processes, as several tests have them."""
import os
import signal
import sys
import threading
import traceback


def run(*bodies):
    """Runs them in threads, and raises what the first one raised that did not end well."""
    failures = []

    def guarded(body):
        try:
            body()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


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
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
