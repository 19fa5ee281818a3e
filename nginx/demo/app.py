# SPDX-License-Identifier: MIT
"""Two users of the filter in the file $TAMIS_FILE, by the library $TAMIS_LIBRARY, who get one token a line.

The application for gunicorn answers a request with a digit for each token in its body: 1 if the token was new.  As a
program, this file adds all tokens of its standard input in each of four threads, and prints for each token how many
of them were told that it was new."""
import concurrent.futures
import ctypes
import os
import sys

_tamis = ctypes.CDLL(os.environ["TAMIS_LIBRARY"])
_filter = ctypes.c_void_p()
if _tamis.tamis_open_shared(None, os.environ["TAMIS_FILE"].encode(), ctypes.byref(_filter)) != 0:
    raise SystemExit("the filter cannot be opened")


class Key(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("len", ctypes.c_size_t)]


def add(tokens):
    """For each token, whether it was new.  Other threads run meanwhile, as ctypes lets go of the interpreter's lock."""
    keys, results = (Key * len(tokens))(*((token, len(token)) for token in tokens)), (ctypes.c_int * len(tokens))()
    _tamis.tamis_add_unique_many(_filter, keys, ctypes.c_size_t(len(tokens)), results)
    if any(result < 0 for result in results):
        raise OSError("the filter failed")
    return [1 - result for result in results]


def application(environment, start_response):
    tokens = environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0)).splitlines()
    body = "".join(map(str, add(tokens))).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    lines = sys.stdin.buffer.read().splitlines()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print("".join(str(sum(wins)) for wins in zip(*pool.map(add, [lines] * 4))), end="")
