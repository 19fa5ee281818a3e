# SPDX-License-Identifier: MIT
import errno
import fcntl
import os
import struct
import threading
import time
import weakref
from typing import TYPE_CHECKING, Callable, Dict, Iterator, Optional, Tuple, Union

from ._tamis import Bloom, FullError, shared

if TYPE_CHECKING:
    from asyncio import Task

    from ._tamis import _Key

_LOCK = struct.Struct("@hhqqi")  # struct flock: l_type, l_whence, l_start, l_len, l_pid
_BEYOND = 1 << 62  # the first byte that is claimed: no file has as many bytes


class Once:
    """Handle each message once, even if it comes several times, in any number of processes of one machine.

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

    path is the file of a filter that all processes share (see tamis.shared).  Do not remove the file while a process
    has it open: processes that start later would create another filter.

    capacity   messages that are remembered at one time
    fpp        the fraction of messages that are taken for done although they are new, and so are lost.  None: 1e-9;
               with remember 2.5e-9 * (periods + 1), one to three times the lowest rate that a window can have
    remember   seconds for which a message is remembered after its work, at least; None: for ever
    periods    the number of periods into which remember is divided, 1 to 64: a message is remembered for at most
               remember / periods seconds longer.  A period has at least a tenth of a second
    max_bytes  None: the filter has room for capacity messages.  Otherwise it grows up to this number of bytes; with
               remember it does not grow, and is refused if it would take more

    All processes must give the same options.  Exceptions are those of tamis.shared.  Any number of threads may call
    all methods.

    A message is claimed, looked up, handled, recorded and released, in this order:

      - It is claimed before it is looked up, and recorded before it is released.  Otherwise two copies that come at
        the same time would both be handled.
      - It is handled before it is recorded.  Otherwise a message is lost if its worker is killed.
      - Acknowledge it after the `with` statement, when it is recorded.  Otherwise a copy that comes later is handled
        again if the process is killed in between.

    A claim is a lock on one byte beyond the end of the file, whose number comes from the hash of the id.  The system releases
    the lock when its process ends, in whatever way.

    Each call reads time.time() before it looks into the filter or adds to it.  So a message is remembered until this
    clock has advanced by remember seconds, however late, idle or stopped processes are.
    """

    def __init__(self, path: Union[str, bytes, "os.PathLike[str]"], capacity: Optional[int] = None,
                 fpp: Optional[float] = None, *, remember: Optional[float] = None, periods: int = 8,
                 max_bytes: Optional[int] = None) -> None:
        self.path = os.path.abspath(os.fsdecode(path))
        window, growable = 0, None
        if remember is not None:
            if not 1 <= periods <= 64:
                raise ValueError(f"periods is {periods}; it must be from 1 to 64")
            if not periods / 10 <= remember < float("inf"):
                raise ValueError(f"remember is {remember}; it must be at least {periods / 10}, a tenth of a second for each"
                                 " of its periods, or None")
            window, growable = periods, False
        if fpp is None:
            fpp = 2.5e-9 * (window + 1) if window else 1e-9

        def opened(of: Union[str, int]) -> Bloom:
            filter: Bloom = shared(of, capacity, fpp, max_bytes=max_bytes, window=window, growable=growable)
            return filter

        made = opened(self.path)
        self._claims: Optional[_Claims] = _Claims.of(self.path)
        self.done = opened(self._claims.fd)  # the file of the claims, even if path leads to another file by now
        del made
        if bool(self.done.window) != (remember is not None):
            raise ValueError(f"{self.path} remembers messages {'for a time' if self.done.window else 'for ever'}")
        self._remember = remember
        self._period_seconds = None if remember is None else remember / self.done.window
        self._full_in: Optional[int] = None  # the period in which the filter was found full
        self._unrecorded: Optional[Tuple["_Key", Optional[int]]] = None  # a message whose work is done, and its periods

    def claim(self, id: "_Key", timeout: Optional[float] = None, *, seconds: Optional[float] = None) -> "_Claim":
        """Return a context manager that claims a message by its id, which is any key of a filter.

        The value of the `with` statement is True if the statement must handle the message, and False if the message
        was handled before.  If the statement ends without an exception, the message is recorded as done.  Otherwise it
        is not recorded, and the exception reaches the caller.  If another thread or process has claimed the message,
        the statement waits until that claim ends, or raises TimeoutError after timeout seconds.  RuntimeError: this
        thread, or for `async with` this task, has claimed the message already.

        `async with once.claim(id) as first:` is the same for a task of asyncio: it lets the loop run while it waits.

        seconds, from 0 to remember, is the time for which this message is remembered after its work; the message is
        forgotten at most a period later.  None: remember.

        FullError: the filter has no room for another message.  It is raised before the work, with one exception: at
        most one message for each thread or task (with remember: in each period) is handled first, so a copy of this
        message is handled again.

        OSError: the disk has no room for the filter to grow.  It is raised before the work, with the same exception, until
        there is room.
        """
        if seconds is not None:
            if self._remember is None:
                raise ValueError(f"{self.path} remembers messages for ever: seconds needs remember")
            if not 0 <= seconds <= self._remember:
                raise ValueError(f"seconds is {seconds}; it must be from 0 to remember, {self._remember}")
        return _Claim(self, id, timeout, seconds)

    def __repr__(self) -> str:
        remember = "" if self._remember is None else f" remember={self._remember}"
        return f"<Once at {self.path!r}{remember}, {len(self.done)} done>"

    def __contains__(self, id: "_Key") -> bool:
        """Return whether a message was handled, and is still remembered."""
        self._forget()
        return id in self.done

    def sync(self) -> None:
        """Return when all recorded messages are on the disk, so that they survive a power failure."""
        self.done.sync()

    def close(self) -> None:
        """Release the claims.  No `with` statement may be using one."""
        self._claims = None

    def __enter__(self) -> "Once":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- what is done ----

    def _forget(self) -> float:
        """Ends the periods that have passed, which any process may notice first; returns the time."""
        now = time.time()
        if self._period_seconds is not None:
            self.done.advance_to(self._period(now))
        return now

    def _period(self, time: float) -> int:
        return 0 if self._period_seconds is None else max(int(time // self._period_seconds), 0)

    def _is_new(self, id: "_Key") -> bool:
        period = self._period(self._forget())
        if id in self.done:
            return False
        worked = self._unrecorded
        if worked is not None:
            self._add(*worked)  # raises what has hindered it, if that lasts
            if self._unrecorded is worked:
                self._unrecorded = None
            return self._is_new(id)
        if self._full_in == period:
            running = self.done.stats().period
            raise FullError(f"{self.path} has no room for another message" + (
                f": it is in period {running}, and the clock in {period}.  If a clock was wrong once, nothing is forgotten"
                f" until it is right, or done.set_period({period}) is called" if running > period + 1 else ""))
        return True

    def _record(self, id: "_Key", seconds: Optional[float]) -> None:
        now = self._forget()  # so that the message belongs to the period of the present time
        period, periods = self._period(now), None
        if seconds is not None:  # until the period in which they end; rounding may add a period beyond the window
            periods = min(self._period(now + seconds) - period, self.done.window)
        try:
            self._add(id, periods)
        except FullError:
            self._full_in = period
            raise

    def _add(self, id: "_Key", periods: Optional[int]) -> None:
        try:
            self.done.add_copy(id, periods=periods)
        except OSError:
            self._unrecorded = id, periods
            raise


class _Claim:
    __slots__ = ("_once", "_claims", "_id", "_timeout", "_seconds", "_place", "_first")

    def __init__(self, once: Once, id: "_Key", timeout: Optional[float], seconds: Optional[float]) -> None:
        self._place = _BEYOND | once.done.hash(id) >> 2
        if once._claims is None:
            raise ValueError(f"{once.path} is closed")
        if isinstance(id, (bytearray, memoryview)):  # which may get the next message while this one is handled
            id = bytes(id)
        self._once, self._claims, self._id, self._timeout, self._seconds = once, once._claims, id, timeout, seconds

    def __repr__(self) -> str:
        return f"<claim of {self._id!r} at {self._once.path!r}>"

    def __enter__(self) -> bool:
        self._claims.take(self._place, self._timeout)
        return self._look()

    async def __aenter__(self) -> bool:
        import asyncio  # which takes as long to import as all of the package
        for pause in self._claims.tries(self._place, self._timeout, asyncio.current_task()):
            await asyncio.sleep(pause)
        return self._look()

    async def __aexit__(self, exception: Optional[type], *more: object) -> None:
        self.__exit__(exception, *more)

    def _look(self) -> bool:
        try:
            self._first = self._once._is_new(self._id)
        except BaseException:
            self._claims.release(self._place)
            raise
        return self._first

    def __exit__(self, exception: Optional[type], *_: object) -> None:
        try:
            if self._first and exception is None:
                self._once._record(self._id, self._seconds)
        finally:
            self._claims.release(self._place)


def _pauses(until: Optional[float], is_done: Callable[[], bool], why: str) -> Iterator[float]:
    """Yields pauses between tries until one succeeds; raises TimeoutError after the time, if it is not None."""
    pause = 0.001
    while not is_done():
        left = pause if until is None else until - time.monotonic()
        if left <= 0:
            raise TimeoutError(why)
        yield min(pause, left)
        pause = min(2 * pause, 0.05)


def _opened(path: str) -> int:
    """A descriptor of a file, which is none of those of standard streams, even if the program has closed these."""
    lowest = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return fcntl.fcntl(lowest, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(lowest)


class _Claims:
    """The claims of this process on one file, which all objects with this file use."""

    _all: "weakref.WeakValueDictionary[Tuple[int, int], _Claims]" = weakref.WeakValueDictionary()
    _guard = threading.Lock()

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._begin()

    def _begin(self) -> None:
        # places, and the threads and tasks that have claimed them
        self._claimed: Dict[int, Tuple[int, Optional["Task[object]"]]] = {}
        self._released = threading.Condition()

    @classmethod
    def of(cls, path: str) -> "_Claims":
        opened = cls(_opened(path))
        status = os.fstat(opened.fd)
        with cls._guard:
            return cls._all.setdefault((status.st_dev, status.st_ino), opened)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def take(self, place: int, timeout: Optional[float]) -> None:
        """Claims first among the threads of this process, and then among processes."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._released:
            if self._claimed.get(place, (None,))[0] == threading.get_ident():
                raise RuntimeError("this thread has claimed the message, and would wait for itself")
            # (A thread cannot wait for as long as some numbers of seconds.)
            if not self._released.wait_for(lambda: place not in self._claimed, timeout and min(1e9, timeout)):
                raise TimeoutError("the message is claimed by another thread")
            self._claimed[place] = threading.get_ident(), None
        try:
            if until is None:
                self._lock(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, place)
                return
            for pause in _pauses(until, lambda: self._try_lock(place), "the message is claimed by another process"):
                time.sleep(pause)
        except BaseException:
            self._leave(place)
            raise

    def tries(self, place: int, timeout: Optional[float], task: "Optional[Task[object]]") -> Iterator[float]:
        """Claims for a task: yields pauses until it has the claim."""
        owner = threading.get_ident(), task

        def has_claimed() -> bool:
            with self._released:
                if self._claimed.get(place) == owner:
                    raise RuntimeError("this task has claimed the message, and would wait for itself")
                if place in self._claimed or not self._try_lock(place):
                    return False
                self._claimed[place] = owner
                return True
        until = None if timeout is None else time.monotonic() + timeout
        return _pauses(until, has_claimed, "the message is claimed by another task, thread or process")

    def _try_lock(self, place: int) -> bool:
        try:
            self._lock(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, place)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return False
        return True

    def _lock(self, command: int, kind: int, place: int) -> None:
        if self.fd < 0:
            raise OSError(errno.EBADF, "this forked child could not open the file of the claims again")
        fcntl.fcntl(self.fd, command, _LOCK.pack(kind, os.SEEK_SET, place, 1, 0))

    def release(self, place: int) -> None:
        try:
            self._lock(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, place)
        finally:
            self._leave(place)

    def _leave(self, place: int) -> None:
        with self._released:
            self._claimed.pop(place, None)
            self._released.notify_all()


def _after_fork() -> None:
    """A child must not have its parent's locks, so it opens the same file once more; if it may not, it claims nothing."""
    _Claims._guard = threading.Lock()
    for claims in list(_Claims._all.values()):
        inherited, claims.fd = claims.fd, -1
        claims._begin()
        try:
            claims.fd = _opened(f"/proc/self/fd/{inherited}")
        except OSError:
            pass
        os.close(inherited)


os.register_at_fork(after_in_child=_after_fork)
