# SPDX-License-Identifier: MIT
"""A duplicate filter for Scrapy, in bounded memory, that survives kill -9.

    DUPEFILTER_CLASS = "tamis.scrapy.DupeFilter"

It compares Scrapy's own fingerprints (REQUEST_FINGERPRINTER_CLASS), in 5 bytes each where RFPDupeFilter takes some
150.  These are its settings, beside DUPEFILTER_DEBUG:

    DUPEFILTER_CAPACITY       1_000_000  requests expected; more are taken, in more memory
    DUPEFILTER_FPP            1e-6       the part of all requests that may be taken for duplicates, and are skipped
    DUPEFILTER_MAX_BYTES      0          the memory that the filter never exceeds; 0: no limit.  At the limit the
                                         spider is closed, with the reason "dupefilter_full"
    DUPEFILTER_SAVE_INTERVAL  60         seconds between two saves to JOBDIR

With JOBDIR, the filter is saved now and then, and at the end.  A crawl that has ended goes on where it was, as
Scrapy promises.  So does one that was killed, by kill -9 or a failure of power, which Scrapy alone does not promise:
at most what was fetched since the last save is fetched again, and no request is lost.

How.  Scrapy's queue of requests on disk cannot be read after a kill.  So this filter has a list of all requests that
wait or are being worked, in the SQLite file requests.pending.  A request comes into the list when it is scheduled,
and leaves it when all that its callback has yielded is scheduled.  A save writes the filter to a file of another
name, *then* commits the list, and then gives the file its name.  So each state of the disk has this property: every
request in the filter's file is done, with all that follows from it, or is in the list.  (Were the filter's file
newer than the list, a request could be in the filter alone, and be skipped for ever.)  After a kill, the requests of
the list are scheduled again, and Scrapy's queue is removed.

A request that Scrapy cannot write to its queue (its callback is no method of the spider) does not outlive the
process, here as there.

A class derived from DupeFilter may have the constructor that RFPDupeFilter has: settings are taken later.
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
    """The list of requests that wait or are being worked, by their fingerprints.  What was done since the last
    commit is undone by a kill."""

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
        #: whether the last run came to no end
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
    """See the module's documentation, which has the settings.

    len(filter.seen) is the number of requests that were seen, about; filter.seen is a tamis.Bloom.
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
        if before and before.exists():  # of a crawl that was begun with RFPDupeFilter
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
        for written, in self._pending.all():
            scheduler.enqueue_request(request_from_dict(pickle.loads(written), spider=spider))
            count += 1
        self._restoring = False
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
        if self._pending is not None:
            self._pending.commit()
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
                self.seen.save(self._new_path)
                self._pending.end()
                os.replace(self._new_path, self._path)
            except (OSError, sqlite3.Error) as error:
                self._pending.abandon()
                logger.error("The duplicate filter is not saved: %s.  The next run goes on from the last save", error)
            self._pending = None
        elif self._path is not None and self.crawler is None:
            self.seen.save(self._path)
        if self.crawler is not None:
            self._count()
