#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Crawls sites that nginx serves on loopback, kills the crawler at random moments, and compares what was asked
for with exact sets.  Prints a table, and fails if a promise of README.md is broken.

    scenario.py --programs DIR [--short] [--seconds N] [--digits N]
"""
import argparse
import collections
import contextlib
import itertools
import pathlib
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
sys.dont_write_bytecode = True
import loopback
import sites

FPP = 1e-7  # a short crawl at this rate misses nothing
QUICK = ["--delay", "0", "--per-host", "64", "--threads", "3", "--transfers", "8", "--retry", "0.1", "--quiet"]
WINDOW = 2 * 3 * 8  # what README.md calls "in flight", for these options

# Trees of Debian's packages.
REAL_TREES = {"python3-doc": "/usr/share/doc/python3/html", "linux-doc": "/usr/share/doc/linux-doc/html"}


class Crawl:
    """A crawl in a folder, by one process of the crawler after the other."""

    def __init__(self, programs, folder, *options, program="tamis-crawler"):
        folder.mkdir()
        self.folder = folder
        self.metrics_file = folder / "metrics"
        self.process = loopback.Process(
            [programs / program, "--state", folder / "state", "--metrics", self.metrics_file,
             "--pages", folder / "pages", *options], folder)

    def start(self, *more):
        command = self.process.command
        self.process.command = [*command, *map(str, more)]
        self.process.start()
        self.process.command = command
        return self

    def run(self, *more, seconds=600):
        """To the end."""
        status = self.start(*more).process.wait(seconds)
        if status != 0:
            raise AssertionError(f"the crawler ended with status {status}: {self.process.log()[-2000:]}")
        return self

    def metrics(self):
        lines = self.metrics_file.read_text().splitlines()
        return {line.partition("{")[0].split()[0]: float(line.split()[-1]) for line in lines if line[0] != "#"}

    def waiting(self):
        """The pages in the queue, by their paths."""
        file = self.folder / "state" / "queue.db"
        if not file.exists():
            return []
        if not self.process.alive():  # a copy, so that the crawler itself recovers what it has left
            copy = self.folder / "copy"
            copy.mkdir(exist_ok=True)
            for name in ("queue.db", "queue.db-wal"):
                (copy / name).unlink(missing_ok=True)
                if (file.parent / name).exists():
                    shutil.copy(file.parent / name, copy / name)
            file = copy / "queue.db"
        with contextlib.closing(sqlite3.connect(file)) as queue:
            try:
                return [path for path, in queue.execute("SELECT target FROM queue")]
            except sqlite3.OperationalError:  # it was killed before it had made the tables
                return []

    def fetched(self):
        """The size of the list of pages."""
        file = self.folder / "pages"
        return file.stat().st_size if file.exists() else 0

    def filter_file(self):
        try:
            return (self.folder / "state" / "seen.tamis").stat().st_ino
        except FileNotFoundError:
            return None


class Failed(Exception):
    pass


def demand(condition, what):
    if not condition:
        raise Failed(what)


# ---- a crawl that is killed ----


class Log:
    """What nginx was asked for, and what a kill allows to be asked for again."""

    def __init__(self, site):
        self.site = site
        self.counts = collections.Counter()
        self.allowed = collections.Counter()
        self.in_flight = 0  # at one kill, at most

    def read(self):
        for _, status, _, path in self.site.asked():
            if path not in ("/robots.txt", "/settle") and status < 500:
                self.counts[path] += 1

    def interrupted(self, waiting):
        """Nobody is asking now; these pages are in the queue.  What was asked for of them was in flight."""
        self.read()
        in_flight = [path for path in waiting if self.counts[path] > self.allowed[path]]
        self.allowed.update(in_flight)
        self.in_flight = max(self.in_flight, len(in_flight))


def kill_at_random(crawl, rng, longest):
    """Lets the crawler run for a moment, and kills it; at half of the times, when it has just saved.

    The moment begins when it has fetched something, or, at one time in five, when it is started.
    """
    if rng.random() > 0.2:
        before = crawl.fetched()
        while crawl.process.alive() and crawl.fetched() == before:
            time.sleep(0.002)
    until = time.monotonic() + rng.uniform(0, longest)
    if rng.random() < 0.5:
        before = crawl.filter_file()
        while crawl.process.alive() and crawl.filter_file() == before and time.monotonic() < until + longest:
            pass
        time.sleep(rng.choice((0, 0, 0.001, 0.005)))
    else:
        while crawl.process.alive() and time.monotonic() < until:
            time.sleep(0.005)
    if crawl.process.alive():
        crawl.process.kill()
        return True
    return False


def killed_crawl(programs, folder, digits, rng, most_kills, longest):
    """One crawl of a generated site, to its end.  Returns figures, and raises Failed for a broken promise."""
    site = sites.tree(folder / "site", digits)
    log = Log(site)
    crawl = Crawl(programs, folder / "crawl", *QUICK, "--fpp", FPP, "--save-every", "0.1")
    kills = ends = outages = 0
    crawl.start(site.url("/p"))
    while kills + ends < most_kills:
        what = rng.random()
        if what < 0.1:  # a clean end
            time.sleep(rng.uniform(0.05, longest))
            if crawl.process.alive():
                status = crawl.process.end()
                demand(status in (0, 128 + signal.SIGTERM, -signal.SIGTERM), f"status {status} after SIGTERM")
                ends += 1
        elif what < 0.15:  # the server is away for a moment, and cuts off what it was sending
            site.stop()
            time.sleep(rng.uniform(0, 0.3))
            log.interrupted(crawl.waiting())
            site.start()
            outages += 1
            continue
        elif kill_at_random(crawl, rng, longest):
            kills += 1
            site.settle()
            log.interrupted(crawl.waiting())
        if crawl.process.process.returncode == 0:
            break
        crawl.start(*([] if crawl.waiting() else [site.url("/p")]))  # seeds, if it was killed before it had any
    status = crawl.process.wait(600)
    demand(status == 0, f"status {status}: {crawl.process.log()[-2000:]}")
    site.stop()

    log.read()
    wanted = set(sites.tree_pages(digits))
    missed = wanted - log.counts.keys()
    strange = log.counts.keys() - wanted
    again = {path: count - 1 for path, count in log.counts.items() if count > 1}
    broken = [path for path, count in again.items() if count > log.allowed[path]]
    demand(not strange, f"FAILED strange: {sorted(strange)[:5]}")
    demand(not missed, f"FAILED missed: {len(missed)} pages, {sorted(missed)[:5]}")
    demand(not broken, f"FAILED again: {len(broken)} pages that were not in flight: {sorted(broken)[:5]}")
    demand(log.in_flight <= WINDOW, f"FAILED window: {log.in_flight} pages were in flight, and not {WINDOW}")
    return {"crawls that were killed": int(kills > 0), "kill -9": kills, "SIGTERM": ends,
            "outages of the server": outages,
            "pages and redirects": len(wanted), "fetched again; all had been in flight": sum(again.values()),
            "fetched again although they were not in flight": len(broken), "missed": len(missed)}, log.in_flight


# ---- loss of power ----


def lose_power(state, disk):
    """The folder becomes what the disk has: names and data that were synchronised (power.c)."""
    names = [line.split(" ", 1) for line in (disk / "names").read_text().splitlines()] if (disk / "names").exists() else []
    shutil.rmtree(state)
    state.mkdir(mode=0o700)
    kept = {}
    for number, name in names:
        path = state / name
        path.write_bytes((disk / number).read_bytes() if (disk / number).exists() else b"")
        kept[path.stat().st_ino] = path
    shutil.rmtree(disk)
    disk.mkdir()
    for number, path in kept.items():
        shutil.copy(path, disk / str(number))
    (disk / "names").write_text("".join(f"{number} {path.name}\n" for number, path in kept.items()))


def power_is_lost(programs, folder, rng, crawls):
    """No page is missed, although all that was not synchronised is gone, at moments of a save."""
    site = sites.tree(folder / "site", 2)
    losses = again = 0
    for number in range(crawls):
        crawl = Crawl(programs, folder / str(number), *QUICK, "--fpp", FPP, "--save-every", "0.02")
        state, disk = crawl.folder / "state", crawl.folder / "disk"
        disk.mkdir()
        crawl.process.environment.update(LD_PRELOAD=str(programs / "libpower.so"), POWER_FOLDER=str(state), POWER_DISK=str(disk))
        for _ in range(8):
            at = {"POWER_AT": rng.randrange(1, 40)} if rng.random() < 0.2 else {"POWER_AT_NAMES": rng.choice((4, 8, 10))}
            crawl.process.environment.update(POWER_AT="0", POWER_AT_NAMES="0")
            crawl.process.environment.update({name: str(value) for name, value in at.items()})
            status = crawl.start(site.url("/p")).process.wait()
            if status == 0:
                break
            demand(status == -signal.SIGKILL, f"FAILED power: status {status}: {crawl.process.log()[-2000:]}")
            losses += 1
            lose_power(state, disk)
        crawl.process.environment.update(POWER_AT="0", POWER_AT_NAMES="0")
        crawl.run(site.url("/p"))
        site.settle()
        counts = collections.Counter(path for _, _, _, path in site.asked())
        missed = set(sites.tree_pages(2)) - counts.keys()
        demand(not missed, f"FAILED power: {len(missed)} pages were missed: {sorted(missed)[:5]}")
        again += sum(count - 1 for path, count in counts.items() if path not in ("/robots.txt", "/settle", "/broken"))
    site.stop()
    return f"{losses} times; {again} pages were fetched again, none missed"


# ---- single promises ----


def each_page_once(programs, folder, digits):
    """Without a kill, each page is asked for exactly once."""
    site = sites.tree(folder / "site", digits)
    crawl = Crawl(programs, folder / "crawl", *QUICK, "--fpp", FPP).run(site.url("/p"))
    site.stop()
    counts = collections.Counter(path for _, _, _, path in site.asked())
    tried = counts.pop("/broken", 0)
    wanted = {*sites.tree_pages(digits), "/robots.txt"}
    demand(counts.keys() == wanted, f"FAILED set: {sorted(counts.keys() ^ wanted)[:8]}")
    demand(set(counts.values()) == {1}, f"FAILED once: {counts.most_common(3)}")
    demand(tried == 5, f"FAILED tries: {tried} of a page that is broken")
    lines = (crawl.folder / "pages").read_text().splitlines()
    demand(len(lines) == len(wanted) - 1, f"FAILED list: {len(lines)} pages")
    # Nothing is left to do.
    crawl.run()
    demand(crawl.metrics()["crawler_pages_fetched_total"] == 0, "FAILED: a complete crawl went on")


def rate_is_kept(programs, folder, digits, fpp=0.02):
    """At a high rate pages are missed, and no more than the rate says; without a filter none would be."""
    site = sites.tree(folder / "site", digits)
    crawl = Crawl(programs, folder / "crawl", *QUICK, "--fpp", fpp, "--expected", "100", "--tries", "1").run(site.url("/p"))
    site.stop()
    asked = {path for _, _, _, path in site.asked()}
    hidden = [path for path in set(sites.tree_pages(digits)) - asked if sites.finder(path) in asked]
    offered = crawl.metrics()["tamis_keys"] + len(hidden)
    allowed = fpp * offered
    demand(len(hidden) <= allowed + 5 * allowed**0.5 + 1, f"FAILED rate: {len(hidden)} of {offered:.0f} URLs hidden at {fpp}")
    return f"{len(hidden)} of {offered:.0f} URLs hidden; {allowed:.0f} are allowed"


def hosts_are_not_hurried(programs, folder):
    """Several hosts: each gets one request at a time, and not before its Crawl-delay is over."""
    hosts = [f"127.0.0.{n}" for n in range(2, 6)]
    delay = 0.4

    def locations(port):
        others = "".join(f'<a href="http://{host}:{port}/a">' for host in hosts)
        # On a connection of its own, no request is logged with a time before it came.
        return rf"""
        keepalive_timeout 0;
        location = /robots.txt {{ default_type text/plain; return 200 'User-agent: tamis-crawler\nCrawl-delay: {delay}\n'; }}
        location ~ "^/[a-d]$" {{ return 200 '<a href="/a"><a href="/b"><a href="/c"><a href="/d">{others}'; }}
        """
    site = sites.Site(folder / "site", locations, hosts=hosts)
    begin = time.monotonic()
    Crawl(programs, folder / "crawl", "--any-host", "--delay", "0.01", "--per-host", "4", "--quiet").run(site.url("/a"))
    elapsed = time.monotonic() - begin
    site.stop()
    by_host, robots = collections.defaultdict(list), {}
    for when, _, host, path in site.asked():
        if path == "/robots.txt":
            robots.setdefault(host, when)
        else:
            by_host[host].append(when)
    demand(len(by_host) == len(hosts) and all(len(times) == 4 for times in by_host.values()), f"FAILED hosts: {by_host}")
    # A request may come late, and the next one in time; none comes before all delays since the robots.txt.
    early = [(host, k, when - robots[host]) for host, times in by_host.items() for k, when in enumerate(times)
             if when - robots[host] < k * delay - 0.05]
    demand(not early, f"FAILED delay: requests that many seconds after the robots.txt: {early}")
    gap = min(b - a for times in by_host.values() for a, b in zip(times, times[1:]))
    return f"{gap:.2f} s of {delay} s; {len(hosts)} hosts in {elapsed:.1f} s"


def depth_is_limited(programs, folder):
    """A trap without end; and a page that is first found on a long way, because the short one is slow."""
    def locations(_):
        return """
        location = /robots.txt { return 404; }
        location = / { return 200 '<a href="/t"><a href="/slow.html"><a href="/1">'; }
        location ~ "^/[1-4]$" { return 302 /1$uri; }
        location ~ "^/1(?:/1)*/1$" { return 200 '<a href="/x"><a href="$uri/1">'; }
        location = /x { return 200 '<a href="/x/1">'; }
        location ~ "^/x(?:/1){1,9}$" { return 200 '<a href="$uri/1">'; }
        location ~ ^/t { return 200 '<a href="$uri/t">'; }
        location = /slow.html { limit_rate 32k; root .; }
        """
    site = sites.Site(folder / "site", locations, {"slow.html": "<p>" + "slow " * 10000 + '</p><a href="/x">'})
    Crawl(programs, folder / "crawl", *QUICK, "--depth", "6").run(site.url("/"))
    site.stop()
    counts = collections.Counter(path for _, _, _, path in site.asked())
    # /x is at depth 2 through the slow page, and so /x/1/1/1/1 at depth 6.
    demand(counts["/x/1/1/1/1"] == 1, "FAILED depth: a page within the limit was missed")
    demand("/x/1/1/1/1/1" not in counts, "FAILED depth: a page beyond the limit was fetched")
    demand(sum(path.startswith("/t") for path in counts) == 6, "FAILED depth: the trap")


def errors_are_clear(programs, folder):
    """A full disk, a second crawler, a filter that is gone or is another one's, no server."""
    site = sites.tree(folder / "site", 2)

    def says(crawl, word, *more):
        status = crawl.start(*more).process.wait(60)
        log = crawl.process.log()
        demand(status == 1 and word in log, f"FAILED error: status {status}, no '{word}' in: {log[-500:]}")

    # A limit of the size of files is a disk that becomes full.
    crawl = Crawl(programs, folder / "full", *QUICK, "--expected", "1000")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, before[1]))
    try:
        says(crawl, "queue", site.url("/p"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    list(site.asked())
    with open(crawl.folder / "pages", "a") as pages:
        pages.write("200\t1\t100\thttp://cut.off")
    crawl.run()
    crawl.run(site.url("/p"))
    lines = {line.split("\t")[3] for line in (crawl.folder / "pages").read_text().splitlines()}
    wanted = {site.url(path) for path in sites.tree_pages(2)}
    demand(lines == wanted, f"FAILED after a full disk: {sorted(lines ^ wanted)[:5]}")

    slow = Crawl(programs, folder / "slow", "--quiet").start(site.url("/p"))
    loopback.wait_until(lambda: (folder / "slow" / "state" / "seen.tamis").exists(), "the state")
    second = loopback.Process(slow.process.command, folder / "second").start()
    demand(second.wait() == 1 and "another crawler" in second.log(), f"FAILED lock: {second.log()}")
    slow.process.kill()
    other = folder / "full" / "state" / "seen.tamis"
    (folder / "slow" / "state" / "seen.tamis").write_bytes(other.read_bytes())
    says(slow, "is not the filter of this crawl")
    (folder / "slow" / "state" / "seen.tamis").unlink()
    says(slow, "cannot load the filter")
    says(Crawl(programs, folder / "nothing", *QUICK), "nothing to crawl")
    tiny = Crawl(programs, folder / "tiny", *QUICK, "--fpp", FPP, "--expected", "10")
    says(tiny, "takes no more URLs", "--memory", "3500", site.url("/p"))
    list(site.asked())
    tiny.run("--memory", "1000000")
    lines = {line.split("\t")[3] for line in (tiny.folder / "pages").read_text().splitlines()}
    demand(lines == wanted, f"FAILED after a full filter: {sorted(lines ^ wanted)[:5]}")
    site.stop()
    nobody = Crawl(programs, folder / "nobody", *QUICK, "--retry", "0.01").run(site.url("/p"))
    demand("given up after 8 attempts" in nobody.process.log(), f"FAILED nobody: {nobody.process.log()}")


# ---- how fast, and how large ----


def processor_time():
    """Of the children that have ended: those that are measured."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(programs, folder, digits, threads, exact):
    folder.mkdir()
    site = sites.tree(folder / "site", digits)
    program = "tamis-crawler-exact" if exact else "tamis-crawler"
    begin, used = time.monotonic(), processor_time()
    options = ["--delay", "0", "--per-host", "64", "--threads", str(threads), "--transfers", "16", "--tries", "1", "--expected", "10000", "--quiet"]
    crawl = Crawl(programs, folder / "crawl", *options, program=program).run(site.url("/p"), seconds=36000)
    elapsed, used = time.monotonic() - begin, processor_time() - used
    site.stop()
    counts = collections.Counter(path for _, _, _, path in site.asked())
    metrics = crawl.metrics()
    wanted = set(sites.tree_pages(digits))
    return {"set": "exact" if exact else "filter", "threads": threads, "seconds": elapsed,
            "pages": int(metrics["crawler_pages_fetched_total"]), "missed": len(wanted - counts.keys()),
            "rate": metrics["crawler_pages_fetched_total"] / elapsed, "used": used,
            "bytes": metrics["tamis_bytes"], "keys": metrics["tamis_keys"]}


def real_tree(programs, folder, root):
    """A tree of pages that people have written, next to what Python's own parsers find in it."""
    root = pathlib.Path(root).resolve()
    if not (root / "index.html").is_file():
        return "left out: the package is missing"
    folder.mkdir()
    site = sites.Site(folder / "site", lambda _: f"location / {{ root {root}; disable_symlinks off; }}")
    begin = time.monotonic()
    Crawl(programs, folder / "crawl", *QUICK, "--fpp", FPP).run(site.url("/index.html"))
    elapsed = time.monotonic() - begin
    site.stop()
    counts = collections.Counter(path for _, _, _, path in site.asked())
    counts.pop("/robots.txt")
    wanted = sites.reachable(root, "/index.html")
    missed, strange = wanted - counts.keys(), counts.keys() - wanted
    demand(not missed and not strange, f"FAILED {root}: missed {sorted(missed)[:5]}, strange {sorted(strange)[:5]}")
    demand(max(counts.values()) == 1, f"FAILED {root}: {counts.most_common(3)}")
    return f"{len(wanted)} pages, each once, in {elapsed:.1f} s"


def show(label, value):
    print(f"{label:48}  {value}", flush=True)


def scenario(args, folder):
    programs, rng = args.programs.resolve(), random.Random(args.seed)
    parts = loopback.Process([programs / "test_parts"], folder / "parts").start()
    demand(parts.wait(600) == 0, f"FAILED parts: {parts.log()}")
    show("robots.txt, normal form of URLs", "as RFC 9309 and RFC 3986 have them; hostile ones end")
    number = 0

    def fresh():
        nonlocal number
        number += 1
        (folder / str(number)).mkdir()
        return folder / str(number)

    if args.digits:
        for exact in (False, True):
            row = compare(programs, folder / f"large{exact}", args.digits, 2, exact)
            show_row(row)
        return True
    each_page_once(programs, fresh(), 2 if args.short else 3)
    show("each page once, and nothing else", "yes")
    show("false positives at a rate of 0.02", rate_is_kept(programs, fresh(), 2 if args.short else 4))
    show("Crawl-delay: shortest gap", hosts_are_not_hurried(programs, fresh()))
    depth_is_limited(programs, fresh())
    show("depth: exact, and traps end", "yes")
    errors_are_clear(programs, fresh())
    show("full disk, lock, wrong filter, no server", "clear errors; the crawl goes on later")
    show("loss of power", power_is_lost(programs, fresh(), rng, 3 if args.short else 20))
    total, window, until = collections.Counter(), 0, time.monotonic() + args.seconds
    least = 8 if args.short else 1  # kills: on a busy machine, a small crawl may end after one
    for tries in itertools.count(1):
        where = fresh()
        form = (3, rng, 12, 0.1) if args.short else (4, rng, 40, 0.5)
        figures, in_flight = killed_crawl(programs, where, *form)
        total.update(figures)
        window = max(window, in_flight)
        shutil.rmtree(where)
        if time.monotonic() > until and (total["kill -9"] >= least or tries >= 10):
            break
    demand(total["kill -9"] > 0, "FAILED: it was never killed")
    for label, value in total.items():
        show(label, value)
    show("in flight at one kill, at most", f"{window}; {WINDOW} are allowed")
    if args.short:
        return True
    for package, root in REAL_TREES.items():
        show(package, real_tree(programs, folder / package, root))
    print()
    for threads in (1, 2, 4):
        for exact in (False, True):
            show_row(compare(programs, folder / f"compare{threads}{exact}", 4, threads, exact))
    return True


def show_row(row):
    print(f"{row['set']:7} {row['threads']} threads: {row['pages']} pages in {row['seconds']:.1f} s, {row['rate']:.0f} a second, "
          f"{1e6 * row['used'] / row['pages']:.0f} us of processor time each, {row['missed']} missed; "
          f"{row['keys']:.0f} URLs in {row['bytes'] / 1024:.0f} KiB, {8 * row['bytes'] / row['keys']:.1f} bits each", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="the folder that has tamis-crawler")
    parser.add_argument("--short", action="store_true", help="as the suite runs it")
    parser.add_argument("--seconds", type=float, default=0, help="how long crawls are killed, one after the other")
    parser.add_argument("--digits", type=int, help="only: a site of 10^N pages, with filter and exact set")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    args = parser.parse_args()

    def run(folder):
        try:
            return scenario(args, folder)
        except Failed as failed:
            print(failed)
            print(f"(--seed {args.seed})")
            return False
    loopback.supervised(run)


if __name__ == "__main__":
    main()
