#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Crawls a site that nginx serves on loopback, kills the crawler at random moments by -9, and compares what nginx
was asked for with what the site has.

    scenario.py --programs DIR [--kills N] [--digits N] [--seed N]
"""
import collections
import contextlib
import itertools
import pathlib
import random
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from loopback import Process, scenario, wait_until  # noqa: E402
from servers import Site  # noqa: E402

THREADS = 4
SAVE_EVERY = 25  # pages, so that many kills meet a save
# How a page names its children 0 to 9: by paths, by an address, with a fragment, with dots, by a redirect.
CHILDREN = ('<a href="HTTP://127.0.0.1:{port}$uri/0"><a href="$uri/1#part"><a href="/r$uri/2"><a href="$last/3">'
            '<A class=x HREF="$uri/x/../4">' + "".join(f'<a href="$uri/{i}">' for i in range(5, 10)))
OTHERS = ('<a href="#x"><a href="/p"><a href=""><a href="/gone"><a href="/broken"><a href="/loop"><a><a href="mailto:a@b">'
          '<a href="http://other.host/"><a href="http://"><!-- <a href="/comment"> --><td <<a')


def locations(digits):
    """A tree of pages: /p has links to /p/0 to /p/9, and so on, in all {digits} digits.  nginx makes them on the fly."""
    return lambda port: rf"""
    location = /gone {{ return 404; }}
    location = /broken {{ return 500; }}
    location = /loop {{ return 302 /pool; }}
    location = /pool {{ return 302 /loop; }}
    location ~ ^/r(/p.*)$ {{ return 302 $1; }}
    location ~ "^/p(?:/[0-9]){{{digits}}}$" {{ return 200 '<html>{OTHERS}'; }}
    location ~ "^(?:/[0-9p])*/(?<last>[0-9p])$" {{ return 200 '<html>{CHILDREN.format(port=port)}{OTHERS}'; }}
    location / {{ return 404; }}
    """


def pages(digits):
    """What must be asked for."""
    for depth in range(digits + 1):
        for word in itertools.product("0123456789", repeat=depth):
            path = "/".join(["/p", *word])
            yield path
            if depth < digits:
                yield f"/r{path}/2"
    yield from ("/gone", "/loop", "/pool", "/broken")


def rows(state):
    """How many rows of the table wait, and how many are done: (waiting, done)."""
    with contextlib.closing(sqlite3.connect(state / "pages.db")) as db:
        return tuple(db.execute("SELECT count(*) FROM pages WHERE done = ?", (value,)).fetchone()[0] for value in (0, 1))


class Scene:
    def __init__(self, folder, options):
        self.random, self.digits = random.Random(options.seed), options.digits
        self.site = Site(folder / "site", locations(options.digits))
        self.state = folder / "state"
        command = [options.programs.resolve() / "crawler", self.state, THREADS, SAVE_EVERY, self.site.url("/p")]
        self.crawler = Process(command, folder / "crawler")
        self.asked = collections.Counter()

    def read(self):
        self.asked.update(path for _, _, _, path in self.site.asked() if path not in ("/settle", "/broken"))

    def filter_file(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.state / "seen.tamis").stat().st_ino

    def kill_at_random(self):
        """A kill when some more pages were asked for; after half of them, when the filter has just been saved."""
        log, more, saves = self.site.folder / "asked", self.random.randrange(20, 60), self.random.random() < 0.5
        before = log.stat().st_size
        wait_until(lambda: log.stat().st_size > before + 50 * more or not self.crawler.alive(), "pages are fetched")
        saved = self.filter_file()
        while saves and self.crawler.alive() and self.filter_file() == saved:
            pass
        alive = self.crawler.alive()
        self.crawler.kill()
        return alive

    def run_with_kills(self, kills):
        for number in range(kills):
            self.crawler.start()
            if not self.kill_at_random():
                raise AssertionError(f"the crawler has ended: {self.crawler.log()[-2000:]}")
            self.site.settle()
            self.read()
            waiting, done = rows(self.state)
            print(f"kill {number + 1}: nginx was asked {sum(self.asked.values())} times for {len(self.asked)} pages so far; the"
                  f" table says that {waiting} pages wait, and that {done} were fetched since the last save", flush=True)

    def run_to_the_end(self):
        status = self.crawler.start().wait(600)
        assert status == 0, f"status {status}: {self.crawler.log()[-2000:]}"
        self.site.settle()
        self.read()
        return [line for line in self.crawler.log().splitlines() if line.startswith("complete: ")][-1]

    def check(self, kills):
        wanted = set(pages(self.digits)) - {"/broken"}
        missed, strange = wanted - self.asked.keys(), self.asked.keys() - wanted
        again = sum(self.asked.values()) - len(self.asked)
        print(f"{len(wanted)} pages and redirects, {len(missed)} missed, {again} asked for again: at most {kills} kills"
              f" x {THREADS} threads = {kills * THREADS}, as each thread has one page in hand", flush=True)
        assert not strange, f"FAILED: nobody links to {sorted(strange)[:5]}"
        assert not missed, f"FAILED: missed {sorted(missed)[:5]}"
        assert again <= kills * THREADS, f"FAILED: again: {self.asked.most_common(5)}"

    def check_threads(self):
        """Each URL was won by one thread, and each thread has won some."""
        fetched, won = collections.Counter(), collections.Counter()
        for line in self.crawler.log().splitlines():
            if line.startswith("thread "):
                words = line.split()
                fetched[words[1]] += 1
                won[words[1]] += int(words[5])
        for thread in sorted(fetched):
            print(f"thread {thread} fetched {fetched[thread]} pages, on which it was the first to find {won[thread]} URLs")
        assert len(fetched) == THREADS, "FAILED: a thread did nothing"


def main(folder, options):
    print(f"nginx has a tree of pages; {THREADS} threads crawl it, share the filter, and save it every {SAVE_EVERY} pages"
          f" (--seed {options.seed})", flush=True)
    scene = Scene(folder, options)
    scene.run_with_kills(options.kills)
    print(scene.run_to_the_end())
    scene.check_threads()
    scene.check(options.kills)
    before = sum(scene.asked.values())
    scene.run_to_the_end()
    assert sum(scene.asked.values()) == before, "FAILED: a complete crawl asks for pages"
    print("started once more, it asks for nothing")
    return True


if __name__ == "__main__":
    scenario(main, kills=12, digits=3)
