# SPDX-License-Identifier: MIT
"""A duplicate filter for Scrapy, in bounded memory, that survives kill -9.

    DUPEFILTER_CLASS = "tamis.scrapy.DupeFilter"

It compares Scrapy's own fingerprints (REQUEST_FINGERPRINTER_CLASS), and takes 4 to 6 bytes for each; RFPDupeFilter takes
more than 100.  It has these settings, and DUPEFILTER_DEBUG:

    DUPEFILTER_CAPACITY       1_000_000  requests expected; if more come, the filter grows
    DUPEFILTER_FPP            1e-6       the fraction of new requests that are taken for duplicates and skipped
    DUPEFILTER_MAX_BYTES      0          the most memory that the filter takes; 0: no limit.  At the limit the spider
                                         is closed, with the reason "dupefilter_full"
    DUPEFILTER_SAVE_INTERVAL  60         seconds between two saves to JOBDIR

With JOBDIR, the filter is saved at this interval and at the end.  As Scrapy promises, a crawl that was stopped
continues where it was.  So does a crawl that was ended by kill -9 or a power failure, which Scrapy alone does not
promise: at most the pages fetched since the last save are fetched again, and no request is lost.

How this works.  Scrapy's queue of requests on disk cannot be read after a kill.  So this filter keeps a list of all
requests that wait or are in progress, in the SQLite file requests.pending.  A request enters the list when it is
scheduled, and leaves it when all requests that its callback has yielded are scheduled.  A save writes the filter to a
temporary file, *then* commits the list, and then renames the file.  So in each state of the disk, every request in
the filter's file is either in the list, or done together with all requests that follow from it.  (If the filter's
file were newer than the list, a request could be only in the filter, and would be skipped for ever.)  After a kill,
the requests of the list are scheduled again, and Scrapy's queue is removed.

A request that Scrapy cannot write to its queue, because its callback is not a method of the spider, is lost when the
process ends, as with Scrapy alone.

A class derived from DupeFilter may have the constructor of RFPDupeFilter: the settings are read later.
"""
import functools
import logging
import os
import pickle
import shutil
import sqlite3
from pathlib import Path

from scrapy import signals
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.request import request_from_dict

import tamis

__all__ = ["DupeFilter"]

logger = logging.getLogger(__name__)


class _Pending:
    """The list of requests that wait or are in progress, by their fingerprints.  A kill undoes all changes since the
    last commit."""

    def __init__(self, path):
        self.base = sqlite3.connect(path, isolation_level=None, timeout=1)
        self.base.execute("PRAGMA locking_mode = EXCLUSIVE")
        self.base.execute("PRAGMA synchronous = FULL")
        try:
            self.base.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise RuntimeError(f"{path} cannot be used, perhaps by another crawl: {error}") from error
        self.base.execute("CREATE TABLE IF NOT EXISTS pending (fingerprint TEXT PRIMARY KEY, times INTEGER, request BLOB)"
                          " WITHOUT ROWID")
        self.base.execute("CREATE TABLE IF NOT EXISTS runs (running INTEGER)")
        #: whether the last run was killed, and its requests are not yet scheduled again
        self.was_killed = self.base.execute("SELECT 1 FROM runs").fetchone() is not None

    def begin(self):
        self.base.execute("DELETE FROM runs")
        self.base.execute("INSERT INTO runs VALUES (1)")
        self.base.execute("UPDATE pending SET times = 1")
        self.commit()

    def add(self, fingerprint, request):
        self.base.execute("INSERT INTO pending VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET"
                          " times = times + 1, request = excluded.request", (fingerprint, request))

    def done(self, fingerprint):
        self.base.execute("UPDATE pending SET times = times - 1 WHERE fingerprint = ?", (fingerprint,))
        self.base.execute("DELETE FROM pending WHERE fingerprint = ? AND times <= 0", (fingerprint,))

    def all(self):
        return self.base.execute("SELECT request FROM pending")

    def commit(self):
        self.base.execute("COMMIT")
        self.base.execute("BEGIN IMMEDIATE")

    def end(self):
        self.base.execute("DELETE FROM runs")
        self.base.execute("COMMIT")
        self.base.close()

    def abandon(self):
        self.base.close()


class DupeFilter(RFPDupeFilter):
    """The documentation of the module describes the settings.

    filter.seen is a tamis.Bloom; len(filter.seen) is about the number of requests that were seen.
    """

    def __init__(self, path=None, debug=False, *, fingerprinter=None, capacity=1_000_000, fpp=1e-6, max_bytes=None,
                 save_interval=60):
        super().__init__(None, debug, fingerprinter=fingerprinter)
        self.crawler, self.save_interval = None, save_interval
        self._capacity, self._fpp, self._max_bytes = capacity, fpp, max_bytes
        self._path = Path(path, "requests.seen.tamis") if path else None
        self._pending = None
        self._restoring = False
        self._working = set()  # requests that the scheduler has given out
        self._loop = self._saving = None

    def __repr__(self):
        return f"<{type(self).__name__} of {self.seen!r}>"

    @functools.cached_property
    def seen(self):
        if self._path and self._path.exists():
            return tamis.load(self._path, max_bytes=self._max_bytes)
        seen = tamis.Bloom(self._capacity, self._fpp, max_bytes=self._max_bytes, seed=0)
        before = self._path and self._path.with_name("requests.seen")
        if before and before.exists():  # the crawl was begun with RFPDupeFilter
            with open(before, "rb") as lines:
                seen.update(line.rstrip() for line in lines)
            logger.warning("This crawl was begun with another duplicate filter.  What waits in its queue since then"
                           " is lost if the crawl is killed")
        return seen

    @classmethod
    def from_settings(cls, settings, *, fingerprinter=None):
        return super().from_settings(settings, fingerprinter=fingerprinter)._with(settings)

    @classmethod
    def from_crawler(cls, crawler):
        made = super().from_crawler(crawler)._with(crawler.settings)
        made.crawler = crawler
        made.seen  # raises what is wrong with it now
        if made._path:
            made._pending = _Pending(made._path.with_name("requests.pending"))
            if made._pending.was_killed:  # before the scheduler reads it
                shutil.rmtree(made._path.with_name("requests.queue"), ignore_errors=True)
        return made

    def _with(self, settings):
        self._capacity = settings.getint("DUPEFILTER_CAPACITY", self._capacity)
        self._fpp = settings.getfloat("DUPEFILTER_FPP", self._fpp)
        self._max_bytes = settings.getint("DUPEFILTER_MAX_BYTES", self._max_bytes or 0) or None
        self.save_interval = settings.getfloat("DUPEFILTER_SAVE_INTERVAL", self.save_interval)
        return self

    # ---- Scrapy's interface ----

    def open(self):
        if self._pending is None:
            return
        self._pending.begin()
        if self._slot is not None:
            self._begin()
        else:  # the engine has none before its scheduler is open
            self.crawler.signals.connect(self._begin, signals.spider_opened)
        from twisted.internet.task import LoopingCall

        self._loop = LoopingCall(self.save_soon)
        self._loop.start(self.save_interval, now=False)

    def request_seen(self, request):
        fingerprint = self.request_fingerprint(request)
        try:
            is_new = self.seen.add(fingerprint)
        except (tamis.FullError, MemoryError) as error:
            self._give_up("dupefilter_full", f"no room for another request ({error}); see DUPEFILTER_MAX_BYTES")
            is_new = True  # it waits in the queue, for a filter with more room
        if self._restoring:
            return False
        if is_new and self._pending is not None:
            self._journal(request, fingerprint)
        return not is_new

    def close(self, reason):
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        if self._saving is not None:
            self._saving.addBoth(lambda _: self._close())
            return self._saving
        self._close()

    # ---- the list of pending requests ----

    @property
    def _slot(self):
        engine = self.crawler.engine
        return getattr(engine, "slot", None) or getattr(engine, "_slot", None)

    def _begin(self):
        if self._slot is not None:
            self._watch()
            if self._pending.was_killed:
                self._restore()
        elif self._pending.was_killed:
            self._lose("this engine has no slot whose scheduler could get the requests of the last run again")
        else:
            logger.warning("Which requests are done, this engine does not tell: after a kill, all are fetched again")

    def _watch(self):
        """To learn which requests are scheduled without a look into the filter, and which are done."""
        slot = self._slot
        next_request, remove_request = slot.scheduler.next_request, slot.remove_request

        def given_out():
            request = next_request()
            if request is not None:
                self._working.add(request)
            return request

        def removed(request):
            if request in self._working:  # and not one that came past the scheduler
                self._working.discard(request)
                self._change("done", self.request_fingerprint(request))
            return remove_request(request)

        slot.scheduler.next_request, slot.remove_request = given_out, removed
        self.crawler.signals.connect(self._scheduled, signals.request_scheduled)

    def _scheduled(self, request, spider):
        if request.dont_filter:  # of others, request_seen is asked
            self._journal(request, self.request_fingerprint(request))

    def _journal(self, request, fingerprint):
        try:
            written = pickle.dumps(request.to_dict(spider=self.crawler.spider), protocol=4)
        except Exception:  # as Scrapy's queues have it: objects may raise anything when they are pickled
            return  # Scrapy counts it
        self._change("add", fingerprint, written)

    def _change(self, call, *arguments):
        if self._pending is None:
            return
        try:
            getattr(self._pending, call)(*arguments)
        except sqlite3.Error as error:
            self._lose(error)

    def _lose(self, error):
        """The list cannot be kept: the last state on the disk is what the next run goes on from."""
        pending, self._pending = self._pending, None
        pending.abandon()
        self._give_up("dupefilter_failed", f"{self._path.parent}/requests.pending cannot be kept: {error}")

    def _give_up(self, reason, words):
        logger.error("The spider is closed: %s", words)
        if self.crawler is not None and self.crawler.engine is not None and self.crawler.engine.spider is not None:
            self.crawler.engine.close_spider(self.crawler.engine.spider, reason)

    def _restore(self):
        scheduler, spider, count = self._slot.scheduler, self.crawler.spider, 0
        self._restoring = True
        try:
            for written, in self._pending.all():
                scheduler.enqueue_request(request_from_dict(pickle.loads(written), spider=spider))
                count += 1
        finally:  # the spider may have a callback no more
            self._restoring = False
        self._pending.was_killed = False
        logger.info("The last run was killed: %d requests are scheduled again", count)

    # ---- saves ----

    @property
    def _new_path(self):
        return self._path.with_name(self._path.name + ".new")

    def save_soon(self):
        """Start a save, in a thread; a deferred that fires when the save is complete."""
        from twisted.internet.threads import deferToThread

        if self._saving is None and self._pending is not None:
            self._saving = deferToThread(self.seen.save, self._new_path)
            self._saving.addCallback(lambda _: self._commit()).addErrback(self._not_saved)
            self._saving.addBoth(self._saved)
        return self._saving

    def _commit(self):
        self._change("commit")  # which undoes all changes if it fails
        if self._pending is not None:
            os.replace(self._new_path, self._path)
            self._count()

    def _saved(self, _):
        self._saving = None

    def _not_saved(self, failure):
        logger.error("The duplicate filter is not saved: %s.  The last save stays", failure.value)
        self.crawler.stats.inc_value("dupefilter/failed_saves")

    def _count(self):
        stats = self.crawler.stats
        stats.inc_value("dupefilter/saves")
        stats.set_value("dupefilter/requests", len(self.seen))
        stats.set_value("dupefilter/bytes", self.seen.nbytes)

    def _close(self):
        if self._pending is not None:
            try:
                if self._pending.was_killed:
                    raise RuntimeError("the requests of the run before are not scheduled again")
                self.seen.save(self._new_path)
                self._pending.end()
                os.replace(self._new_path, self._path)
            except (OSError, RuntimeError, sqlite3.Error) as error:
                self._pending.abandon()
                logger.error("The duplicate filter is not saved: %s.  The next run goes on from the last save", error)
            self._pending = None
        elif self._path is not None and self.crawler is None:
            self.seen.save(self._path)
        if self.crawler is not None:
            self._count()
