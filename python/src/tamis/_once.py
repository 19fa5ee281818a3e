# SPDX-License-Identifier: MIT
import errno
import fcntl
import os
import struct
import threading
import time
import weakref
from typing import Any, Optional, Set, Union

from ._tamis import FullError, shared

_LOCK = struct.Struct("@hhqqi")  # struct flock: l_type, l_whence, l_start, l_len, l_pid


class Once:
    """Work each message once, although it comes several times, in any number of processes of one machine.

    >>> import os, tamis, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> once = tamis.Once(os.path.join(folder, "orders"), capacity=1_000_000)
    >>> for id in "order 1", "order 2", "order 1":
    ...     with once.claim(id) as first:
    ...         if first:
    ...             print("working", id)
    ...     # Acknowledge the message here.
    working order 1
    working order 2

    path is a filter that all processes share (see tamis.shared), and path.claims a file beside it.

    capacity   messages that are remembered at one time
    fpp        the part of all messages that may be taken for done although they were not, and are lost
    remember   seconds for which a message is remembered after its work, at least; None: for ever
    periods    of the window that remember needs: a message is remembered for remember / periods longer at most
    max_bytes  None: the filter has room for capacity messages.  Else it grows up to so many bytes

    All processes give the same options.  Exceptions are those of tamis.shared.  All methods may be called by any
    number of threads.

    A message is claimed, looked up, worked, recorded and released, in this order:

      - claimed before it is looked up, and recorded before it is released: else two copies at the same time would
        both be worked;
      - worked before it is recorded: else a message is lost whose worker is killed;
      - acknowledged at last, after the `with` statement: else a copy that comes later is worked again if the
        process is killed in between.

    A claim is a lock on one byte of path.claims, whose number is the hash of the id.  The system takes it back when
    its process ends, in whatever way.
    """

    def __init__(self, path: Union[str, bytes, "os.PathLike[str]"], capacity: Optional[int] = None, fpp: float = 1e-9, *,
                 remember: Optional[float] = None, periods: int = 8, max_bytes: Optional[int] = None) -> None:
        if remember is not None and not 0 < remember < float("inf"):
            raise ValueError(f"remember is {remember}; it must be positive, or None")
        window = 0 if remember is None else periods
        self.path = os.path.abspath(os.fsdecode(path))
        self.done = shared(self.path, capacity, fpp, max_bytes=max_bytes, window=window)
        if bool(self.done.window) != (remember is not None):
            raise ValueError(f"{self.path} remembers messages {'for a time' if self.done.window else 'for ever'}")
        self._period_seconds = None if remember is None else remember / self.done.window
        self._full = False
        self._fd = -1
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        """Opens the file of claims: again in a process that was forked, which must not have its parent's locks."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = os.open(self.path + ".claims", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._claimed: Set[int] = set()
        self._released = threading.Condition()
        self._period: Optional[int] = None

    def claim(self, id: Any, timeout: Optional[float] = None) -> "_Claim":
        """A context manager that claims a message by its id, which is any key of a filter.

        Its value is True if the message is to be worked by this `with` statement, and False if it was worked before.
        When the statement ends without an exception, the message is recorded as done; with one, it is not, and
        the exception goes on.  If another thread or process has claimed the message, this waits until that one
        is through with it, or for timeout seconds: then TimeoutError.

        FullError: the filter has no room for another message.  It comes before the work, but for the first
        message in each process that finds no room: that one's work is done, and its copies will be worked again.
        """
        return _Claim(self, id, timeout)

    def __contains__(self, id: Any) -> bool:
        """Whether a message was worked."""
        self._forget()
        return id in self.done

    def sync(self) -> None:
        """Return when all that was recorded is on the disk, so that it survives a failure of power."""
        self.done.sync()

    def close(self) -> None:
        """Close the file of claims.  No claim may be running."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> "Once":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    # ---- claims ----

    def _take(self, place: int, timeout: Optional[float]) -> None:
        """Claims among the threads of this process, and then among processes."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._released:
            if not self._released.wait_for(lambda: place not in self._claimed, timeout):
                raise TimeoutError("the message is claimed by another thread")
            self._claimed.add(place)
        try:
            if until is None:
                self._lock(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, place)
            else:
                self._try_until(place, until)
        except BaseException:
            self._leave(place)
            raise

    def _try_until(self, place: int, until: float) -> None:
        pause = 0.001
        while True:
            try:
                self._lock(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, place)
                return
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the message is claimed by another process")
            time.sleep(min(pause, left))
            pause = min(2 * pause, 0.05)

    def _lock(self, command: int, kind: int, place: int) -> None:
        fcntl.fcntl(self._fd, command, _LOCK.pack(kind, os.SEEK_SET, place, 1, 0))

    def _release(self, place: int) -> None:
        try:
            self._lock(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, place)
        finally:
            self._leave(place)

    def _leave(self, place: int) -> None:
        with self._released:
            self._claimed.discard(place)
            self._released.notify_all()

    # ---- what is done ----

    def _forget(self) -> None:
        """Forgets what is older than remember.  Any process may be the first to know that a period has ended."""
        if self._period_seconds is not None:
            period = int(time.time() // self._period_seconds)
            if period != self._period:
                self.done.advance_to(period)
                self._period, self._full = period, False

    def _is_new(self, id: Any) -> bool:
        self._forget()
        if id in self.done:
            return False
        if self._full:
            raise FullError(f"{self.path} has no room for another message")
        return True

    def _record(self, id: Any) -> None:
        self._forget()  # a period that has ended is not the message's
        try:
            self.done.add_copy(id)
        except FullError:
            self._full = True
            raise


class _Claim:
    __slots__ = ("_once", "_id", "_timeout", "_place", "_first")

    def __init__(self, once: Once, id: Any, timeout: Optional[float]) -> None:
        self._once, self._id, self._timeout = once, id, timeout
        self._place = once.done.hash(id) >> 2  # the numbers of bytes in a file have 63 bits

    def __enter__(self) -> bool:
        self._once._take(self._place, self._timeout)
        try:
            self._first = self._once._is_new(self._id)
        except BaseException:
            self._once._release(self._place)
            raise
        return self._first

    def __exit__(self, exception: Optional[type], *_: object) -> None:
        try:
            if self._first and exception is None:
                self._once._record(self._id)
        finally:
            self._once._release(self._place)


_all: "weakref.WeakSet[Once]" = weakref.WeakSet()


def _after_fork() -> None:
    for once in list(_all):
        if once._fd >= 0:
            once._begin()


os.register_at_fork(after_in_child=_after_fork)
