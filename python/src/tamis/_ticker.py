# SPDX-License-Identifier: MIT
import math
import threading
from typing import Optional, Union

from ._tamis import Bloom, Cuckoo


class Ticker:
    """Ends the periods of a filter with a window in a thread, while a `with` statement runs.

    seconds is the length of a period.  The thread ends a period after it has waited for that time, and then waits
    again; it never ends two periods at once.  So a key is remembered for at least `filter.window * seconds` of this
    thread's time, whatever the clock does and however late the thread is.  It is remembered for at most one period
    longer, plus the time by which the thread was late.  While the machine sleeps, no time passes.  While the process is
    stopped, at most one period ends.

    The thread is a daemon: it does not keep the program alive.  If processes share the filter, each may have a Ticker
    with the same seconds, and one of them ends each period.  If other programs that share the filter use a clock,
    call advance_to before each add and look-up instead.  A forked child has no such thread: start a Ticker in the child.

    ValueError: the filter has no window, or seconds is not positive or too large.

    >>> import tamis
    >>> recent = tamis.Bloom(1000, window=12)
    >>> with tamis.Ticker(recent, seconds=300) as ticker:
    ...     recent.add("apple")  # is remembered for an hour
    ...     recent.add("pear", periods=ticker.periods(900))
    True
    True
    """

    def __init__(self, filter: Union[Bloom, Cuckoo], seconds: float) -> None:
        if not filter.window:
            raise ValueError("the filter has no window: create it with window=PERIODS")
        if not 0 < seconds < threading.TIMEOUT_MAX:
            raise ValueError(f"seconds is {seconds}; it must be positive, and at most {threading.TIMEOUT_MAX:.0f}")
        self.filter, self.seconds = filter, seconds
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._period = 0  # the running period when the thread last looked

    def __repr__(self) -> str:
        return f"<Ticker seconds={self.seconds} of {self.filter!r}>"

    def periods(self, seconds: float) -> int:
        """Return the value of periods for a key that is to be remembered for at least this number of seconds.

        It is the lowest value that suffices at any time within a period.  ValueError: seconds is negative or above the window.
        """
        window = self.filter.window
        if not 0 <= seconds <= window * self.seconds:
            raise ValueError(f"seconds is {seconds}; it must be from 0 to {window * self.seconds}, the filter's window")
        return min(math.ceil(seconds / self.seconds), window)

    def start(self) -> "Ticker":
        """Start the thread, as the `with` statement does."""
        if self._thread is not None or self._ended.is_set():
            raise RuntimeError("the ticker was started or stopped before")
        self._look()
        self._thread = threading.Thread(target=self._run, name="tamis.Ticker", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread and wait for it, as the end of the `with` statement does."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> "Ticker":
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._ended.wait(self.seconds):
            self._tick()

    def _look(self) -> bool:
        """Returns whether the running period has changed since the last look."""
        before, self._period = self._period, self.filter.stats().period
        return self._period != before

    def _tick(self) -> None:
        """Ends the period, unless somebody else has ended it since the last tick."""
        if not self._look():
            if self._period == 2**36 - 1:  # the highest number, to which a wrong clock has moved the filter
                self.filter.set_period(0)
            self.filter.advance_to((self._period + 1) % 2**36)
            self._look()
