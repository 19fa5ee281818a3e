#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Scrapy crawls a site that nginx serves, with tamis.scrapy.DupeFilter, and is killed at random.

    crawl.py [--kills N] [--digits N] [--seed N]

Each page must be fetched; and fetched again at most what came since the last save before a kill, beside the start
page, which Scrapy fetches in each run.
"""
import argparse
import collections
import itertools
import json
import pathlib
import random
import signal
import sys
import time

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE / "tests/support"))
import loopback  # noqa: E402
import servers  # noqa: E402

SPIDER = pathlib.Path(__file__).with_name("spider.py")


def locations(digits):
    """A tree of pages, where each page has links to its ten children, to the root, to itself in another form, and
    to a page that redirects to its first child."""
    children = "".join(f'<a href="$uri/{i}">' for i in range(10))
    others = '<a href="/p"><a href="$uri#part"><a href="/r$uri/0"><a href="/gone">'
    return f"""
    location = /gone {{ return 404; }}
    location ~ ^/r(/p.*)$ {{ return 302 $1; }}
    location ~ "^/p(?:/[0-9]){{{digits}}}$" {{ return 200 '<html><a href="/p">'; }}
    location ~ "^/p(?:/[0-9])*$" {{ return 200 '<html>{children}{others}'; }}
    location / {{ return 404; }}
    """


def pages(digits):
    for depth in range(digits + 1):
        for word in itertools.product("0123456789", repeat=depth):
            yield "/".join(["/p", *word])


class Crawl:
    def __init__(self, folder, options):
        self.folder, self.dice = folder, random.Random(options.seed)
        self.site = servers.Site(folder / "site", lambda port: locations(options.digits))
        self.jobdir = folder / "job"
        self.kills, self.printed, self.fetched, self.excused = 0, 0, collections.Counter(), 0

    def start(self, *before):
        python = [sys.executable, "-W", "ignore", SPIDER, self.site.url("/p"), self.jobdir]
        return loopback.Process([*before, *python], self.folder / "run").start()

    def asked(self):
        self.site.settle()
        for when, _, _, path in self.site.asked():
            if path != "/settle":
                self.fetched[path] += 1
                yield when, path

    def wait_for(self, process, count):
        """Waits until so many requests have come, or the process has ended."""
        log = self.folder / "site/asked"
        begin = log.stat().st_size
        while process.alive():
            with open(log) as lines:
                lines.seek(begin)
                if sum(1 for _ in lines) >= count:
                    return
            time.sleep(0.005)

    def run(self):
        """One run, to its end, or to a kill after some time; whether it came to the end."""
        return self.watch(self.start())

    def run_without_room(self):
        """A run whose saves fail, as no file may have so many bytes.  It is killed."""
        process = self.start("prlimit", "--fsize=2000000")
        loopback.wait_until(lambda: "The duplicate filter is not saved" in process.log(), "a save fails")
        process.kill()
        assert not (self.jobdir / "requests.seen.tamis").exists()
        self.excused += sum(1 for _ in self.asked())

    def watch(self, process):
        if self.kills > 0:
            self.kills -= 1
            self.wait_for(process, self.dice.randrange(400))
            process.signal(self.dice.choice([signal.SIGKILL] * 3 + [signal.SIGTERM]))
        status = process.wait(600)
        saved = self.jobdir / "requests.seen.tamis"
        since = saved.stat().st_mtime if saved.exists() else 0
        requests = list(self.asked())
        if status in (-signal.SIGKILL, -signal.SIGTERM):  # the latter before Scrapy minds it
            # The last commit came before the file got its name, so at most this is repeated, and what was under way.
            self.excused += sum(when > since - 0.5 for when, _ in requests) + 64
        elif status != 0 or "Traceback" in process.log():
            raise AssertionError(f"status {status}: {process.log()[-3000:]}")
        self.end = self.ends(process)
        return status == 0 and self.end.get("reason") == "finished"

    def ends(self, process):
        """What the spider has printed at the end of this run; nothing if it was ended before it began."""
        printed = [json.loads(line) for line in process.log().splitlines() if line.startswith('{"reason"')]
        new, self.printed = printed[self.printed:], len(printed)
        return new[-1] if new else {}

    def check(self, digits):
        expected = set(pages(digits))
        missing = expected - self.fetched.keys()
        repeated = sum(self.fetched[path] - 1 for path in expected - {"/p"} if path in self.fetched)
        print(f"{len(expected)} pages, {len(missing)} missing, {repeated} fetched again, at most {self.excused}")
        return not missing and repeated <= self.excused


def main(folder, options):
    crawl = Crawl(folder, options)
    crawl.kills = options.kills
    crawl.run_without_room()
    for runs in itertools.count(1):
        if crawl.run():
            break
        assert runs < 50, "it comes to no end"
    print(f"{runs} runs", flush=True)
    print(crawl.end)
    if not crawl.check(options.digits):
        return False
    # A crawl that has come to its end has nothing left to do but the start page.
    before = sum(crawl.fetched.values())
    assert crawl.run() and sum(crawl.fetched.values()) - before <= 2
    assert crawl.end["dupefilter/filtered"] > 0 and crawl.end["dupefilter/saves"] > 0
    assert crawl.end["dupefilter/requests"] >= len(list(pages(options.digits)))
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--digits", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    loopback.supervised(lambda folder: main(folder, arguments))
