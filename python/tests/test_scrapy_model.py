# SPDX-License-Identifier: MIT
"""tamis.scrapy.DupeFilter with JOBDIR, killed at each line of what commits, saves and renames, in a random crawl.

Scrapy's scheduler gives out the requests.  The engine is a loop, so that a crawl is the same each time up to the kill.
"""
import collections
import os
import random
import signal

import pytest

scrapy = pytest.importorskip("scrapy")
import tamis.scrapy  # noqa: E402
from scrapy import signals  # noqa: E402
from scrapy.core.scheduler import Scheduler  # noqa: E402
from scrapy.utils.test import get_crawler  # noqa: E402
from together import forked, kill_at_line  # noqa: E402
from twisted.internet import defer, task, threads  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
PAGES, SAVES = 9, 1
STEPS = {"from_crawler", "open", "begin", "_begin", "_restore", "save_soon", "_commit", "commit", "close", "_close", "end"}


def url(page):
    return f"http://site/{page}"


class Spider(scrapy.Spider):
    name = "model"

    def parse(self, response):
        raise AssertionError("the loop does this")


class Slot:
    def __init__(self, scheduler):
        self.scheduler = scheduler

    def remove_request(self, request):
        pass


class Engine:
    spider = None


def crawl(jobdir, links, dice, log):
    """One run, to its end."""
    threads.deferToThread = defer.maybeDeferred
    task.LoopingCall.start = lambda *_, **__: None
    crawler = get_crawler(Spider, {"REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7", "JOBDIR": str(jobdir),
                                   "DUPEFILTER_CLASS": "tamis.scrapy.DupeFilter", "DUPEFILTER_CAPACITY": 1000,
                                   "EXTENSIONS_BASE": {}})
    crawler.spider, crawler.engine = Spider.from_crawler(crawler), Engine()
    scheduler = Scheduler.from_crawler(crawler)
    crawler.engine.slot = slot = Slot(scheduler)
    scheduler.open(crawler.spider)
    flying, saves = [], 0

    def schedule(page, **options):
        request = scrapy.Request(url(page), crawler.spider.parse, meta={"page": page}, **options)
        crawler.signals.send_catch_log(signals.request_scheduled, request=request, spider=crawler.spider)
        scheduler.enqueue_request(request)

    def end(request):
        for page in links[request.meta["page"]]:
            schedule(page)
        os.write(log, b"done %d\n" % request.meta["page"])  # all that follows from it is scheduled
        slot.remove_request(request)

    schedule(0, dont_filter=True)
    while True:
        what = dice.random()
        request = slot.scheduler.next_request() if what < 0.5 and len(flying) < 3 else None
        if request is not None:
            os.write(log, b"fetched %d\n" % request.meta["page"])
            flying.append(request)
        elif what < 0.9 and flying:
            end(flying.pop(dice.randrange(len(flying))))
        elif what >= 0.9 and saves < SAVES:
            saves += 1
            os.write(log, b"begins\n")
            scheduler.df.save_soon()
            os.write(log, b"saved\n")
        elif not flying and not scheduler.has_pending_requests():
            break
        if dice.random() < 0.005:
            break  # it is stopped, and goes on in the next run
    while flying:
        end(flying.pop())
    scheduler.close("finished")
    os.write(log, b"ended%d\n" % (len(scheduler) == 0))


def run(jobdir, links, seed, path, kill_at=None):
    """A run in a child, which is killed at the line with this number of those of STEPS; what it has written."""
    def body():
        if kill_at:
            kill_at_line(kill_at, tamis.scrapy.__file__, STEPS)
        crawl(jobdir, links, random.Random(seed), os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT))

    status = forked(body)
    assert status in (0, -signal.SIGKILL), status
    return status, path.read_text().splitlines() if path.exists() else []


def reached(links):
    found, left = {0}, [0]
    while left:
        for page in links[left.pop()]:
            if page not in found:
                found.add(page), left.append(page)
    return found


def check_crawl(folder, seed, kill_at):
    """Runs until the crawl has ended, of which the first is killed, and others at random.  Whether it was."""
    dice = random.Random(seed)
    links = [dice.sample(range(PAGES), dice.randrange(4)) + [(page + 1) % PAGES] for page in range(PAGES)]
    fetched, settled, killed = collections.Counter(), set(), None
    for number in range(60):
        at = kill_at if number == 0 else dice.choice([None] * 5 + [dice.randrange(1, 60)])
        status, lines = run(folder / "job", links, seed + number, folder / f"log {number}", at)
        killed = status != 0 if killed is None else killed
        again = {int(line[8:]) for line in lines if line.startswith("fetched")} & settled - {0}
        assert not again, f"{again} are fetched again, although a save had them"
        done = set()
        for line in lines:
            word, _, page = line.partition(" ")
            if word == "fetched":
                fetched[int(page)] += 1
            elif word == "done":
                done.add(int(page))
            elif word == "begins":
                begun = set(done)
            elif word == "saved":
                settled |= begun
        if status == 0:
            settled |= done
            if lines[-1] == "ended1":
                break
    assert set(fetched) == reached(links), f"{reached(links) - set(fetched)} are lost"
    return killed


def test_killed_at_each_line(tmp_path):
    kills = 0
    crawl(tmp_path / "job", [[]] * PAGES, random.Random(0), os.open(os.devnull, os.O_WRONLY))  # imports, for the children
    for at in range(1, 1000):
        folder = tmp_path / str(at)
        folder.mkdir()
        if not check_crawl(folder, 7, at):  # one whose first save has pages that wait
            break
        kills += 1
    assert 30 < kills < 990
