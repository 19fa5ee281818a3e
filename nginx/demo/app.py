# SPDX-License-Identifier: MIT
"""An application for gunicorn: the body of a request is one token a line, and its answer a digit for each, 1 if
the token was new.  Each worker opens the filter in the file $TAMIS_FILE, by the library $TAMIS_LIBRARY."""
import ctypes
import os

_tamis = ctypes.CDLL(os.environ["TAMIS_LIBRARY"])
_tamis.tamis_add_unique.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
_filter = ctypes.c_void_p()
if _tamis.tamis_open_shared(None, os.environ["TAMIS_FILE"].encode(), ctypes.byref(_filter)) != 0:
    raise SystemExit("the filter cannot be opened")


def application(environment, start_response):
    tokens = environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0)).splitlines()
    results = [_tamis.tamis_add_unique(_filter, token, len(token)) for token in tokens]
    failed = any(result < 0 for result in results)
    body = bytes(49 - result for result in results) if not failed else b"the filter failed"
    start_response("500 Internal Server Error" if failed else "200 OK",
                   [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
