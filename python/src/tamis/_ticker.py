# SPDX-License-Identifier: MIT
import threading
import time
from typing import Optional, Union

from ._tamis import Bloom, Cuckoo


class Ticker:
    """Ends the periods of a filter with a window, by a thread, as long as a `with` statement runs.

    seconds is the length of a period.  Periods begin at multiples of it since 1970, whenever the program was
    started, so a key is remembered for `filter.window * seconds` at least, and for one period longer at most.
    The thread is a daemon: it does not keep the program alive.  Periods that passed while the machine slept
    are made up for.  Of a shared filter, each process may have a Ticker with the same seconds: a period ends once.
    Start the first one before keys are added, as it brings a new filter to the present.  A child that is forked
    has no thread: start a Ticker in it.

    ValueError: the filter has no window, or seconds is not positive.

    >>> import tamis
    >>> recent = tamis.Bloom(1000, window=12)
    >>> with tamis.Ticker(recent, seconds=300):  # an hour
    ...     recent.add("apple")
    True
    """

    def __init__(self, filter: Union[Bloom, Cuckoo], seconds: float) -> None:
        if not filter.window:
            raise ValueError("the filter has no window: create it with window=PERIODS")
        if not 0 < seconds < float("inf"):
            raise ValueError(f"seconds is {seconds}; it must be positive")
        self.filter, self.seconds = filter, seconds
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def start(self) -> "Ticker":
        """Start the thread; `with` does it."""
        if self._thread is not None:
            raise RuntimeError("the ticker was started before")
        self._period = self._now()
        if self.filter.mode == "shared":
            self.filter.advance_to(self._period)
        self._thread = threading.Thread(target=self._run, name="tamis.Ticker", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread, and wait for it; `with` does it."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> "Ticker":
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _now(self) -> int:
        return int(time.time() // self.seconds)

    def _run(self) -> None:
        while not self._ended.wait((self._period + 1) * self.seconds - time.time()):
            self._tick()

    def _tick(self) -> None:
        now = self._now()
        if self.filter.mode == "shared":
            self.filter.advance_to(now)
        else:
            for _ in range(min(max(now - self._period, 0), self.filter.window + 1)):
                self.filter.advance()
        self._period = now  # of a clock that was set back, too
