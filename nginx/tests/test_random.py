# SPDX-License-Identifier: MIT
"""Random requests against a model of all filters, windows and lists: each answer of each worker, and each line that
it writes into the log.  The clock goes on, stands still, jumps, goes back, and is absurd; lists are replaced, damaged,
removed and put back; workers stand still, are killed while they answer, and are replaced by reloads; nginx ends.

TAMIS_SEED is the seed, and TAMIS_STEPS the number of steps.
"""
import os
import random
import re
import signal

from server import request, same, wait_until

G, PERIOD = 3, 2  # of the window, in periods and seconds
CAPACITY = {"t": 100_000, "w": 60, "f": 40}  # where there are fewer keys, none is refused
MOST_PERIOD = 2**36 - 1
KEYS = [f"k{i}" for i in range(148)] + ["%00", "x" * 3000]
LISTED = {"good": KEYS[::3], "other": KEYS[1::3], "locked": KEYS[2::3], "unlocked": KEYS[2::3]}
UNREADABLE = {"nothing": "(2: No such file or directory)", "locked": "(13: Permission denied)"}
OTHER = "good" if os.geteuid() else "locked"  # here a worker reads what the master does
HTTP = f"""
tamis_filter t tokens key=$arg_k capacity={CAPACITY["t"]} fpp=1e-9;
tamis_filter w window key=$arg_k capacity={CAPACITY["w"]} fpp=2e-8 window={G} period={PERIOD}s;
tamis_filter f few key=$arg_k capacity={CAPACITY["f"]} fpp=1e-9;
tamis_filter l list key=$arg_k list;
"""
SERVER = """
error_page 404 /page?other=argument; error_page 403 = @named;
location = /one { return 200 "$tamis_first_t$tamis_seen_t$tamis_seen_w$tamis_first_w$tamis_seen_l$tamis_first_t"; }
location = /seen { return 200 "$tamis_seen_t$tamis_seen_w$tamis_seen_f"; }
location = /two { return 200 "$tamis_seen_l$tamis_first_w$tamis_seen_w$tamis_seen_f$tamis_first_f"; }
location = /rewritten { rewrite ^ /two last; }
location = /missing { return 404; }
location = /page { return 200 "$tamis_first_w$tamis_seen_t$tamis_seen_l"; }
location = /refused { return 403; }
location @named { return 200 "$tamis_first_f$tamis_first_t"; }
location = /asked { if ($tamis_first_w = 1) { return 204; } return 401; }
location = /asks { auth_request /asked; error_page 401 = /no; try_files /nothing /yes; }
location = /yes { return 200 "$tamis_first_w$tamis_seen_w"; }
location = /no { return 200 "$tamis_first_w$tamis_seen_w"; }
"""
ASKS = {"/seen": "seen_t seen_w seen_f", "/one": "first_t seen_t seen_w first_w seen_l first_t", "/two": "seen_l first_w seen_w seen_f first_f",
        "/rewritten": "seen_l first_w seen_w seen_f first_f", "/missing": "first_w seen_t seen_l",
        "/refused": "first_f first_t", "/asks": "first_w seen_w"}


class Filter:
    """What is in: each key with the period that it was added in."""

    def __init__(self, capacity):
        self.capacity, self.period, self.keys = capacity, 0, {}

    def begin(self, period):
        self.period = max(self.period, period)
        self.keys = {key: added for key, added in self.keys.items() if added + G >= self.period}


class Worker:
    """`mapped` is the file that it has of the list, and `told` what it has reported last of each kind of error."""

    def __init__(self, pid, connection, mapped):
        self.pid, self.connection, self.mapped = pid, connection, mapped
        self.looked_at, self.refused, self.told, self.stopped = None, None, {}, False
        self.period, self.ahead = 0, 0  # by the clock, and that of the window if it is too far ahead


class Run:
    def __init__(self, context, seed=1, main="", http=HTTP):
        self.context, self.r = context, random.Random(seed)
        self.nginx = context.nginx(http, SERVER, main=main, has_clock=True)
        self.clock, self.now = self.nginx.clock, self.nginx.clock.now // 1000
        self.filters = {name: Filter(capacity) for name, capacity in CAPACITY.items()}
        self.path, self.log, self.workers, self.read = self.nginx.path("list"), [], [], 0
        self.file, self.number, self.old = None, 0, None  # what the path of the list leads to
        self.put_list("good")
        self.nginx.start()
        self.master_has = self.file
        self.connect()

    # ---- the world ----

    def set_clock(self, seconds):
        self.now = seconds
        self.clock.set(seconds * 1000 + (self.r.randrange(1000) if seconds > 0 else 0))

    def put_list(self, what):
        """A list, something else, or nothing; or the file that was there before.  `file` is (its number, what)."""
        if what == "unlocked":
            if self.file[1] == "locked":
                self.path.chmod(0o644)
                self.file = (self.file[0], what)
            return
        self.number += 1
        kept = self.path.with_name("kept")
        if what == "old" and self.old:
            kept.rename(self.path)
            self.file, self.old = self.old, None
            return
        if self.file and self.file[1] != "nothing":
            kept.unlink(missing_ok=True)
            os.link(self.path, kept)
            self.old = self.file
        if what == "nothing":
            self.path.unlink(missing_ok=True)
        elif what == "damaged":
            new = self.path.with_name("new")
            new.write_bytes(b"no list" * 1000)
            new.rename(self.path)
        else:
            what = what if what in LISTED else "good"
            self.context.build_list(LISTED[what], self.path, mode=0o600 if what == "locked" else 0o644)
        self.file = (0 if what == "nothing" else self.number, what)

    def connect(self):
        """A connection to each worker that runs now; those that are new begin as the master is."""
        wait_until(lambda: len(self.nginx.all_workers()) == self.nginx.workers, "all workers run")
        known, new = {worker.pid: worker for worker in self.workers}, []
        while len(known.keys() & set(self.nginx.all_workers())) < self.nginx.workers:
            connection = self.nginx.connect()
            pid = int(connection.get("/pid")[1])
            if pid not in known:
                known[pid] = Worker(pid, connection, self.master_has)
                new.append(pid)
        self.workers = [known[pid] for pid in sorted(self.nginx.all_workers())]
        why = UNREADABLE.get(self.file[1])
        warning = [f'"l": this worker cannot read list, and so could not map a file that replaces it {why}'] if why else []
        lines = {}
        for worker in self.workers:
            if worker.pid in new:
                self.expected = lines[worker.pid] = []
                self.follow_clock(worker)
                self.expected += warning
        said = self.lines()
        same({pid: sorted(said.get(pid, [])) for pid in lines}, {pid: sorted(lines[pid]) for pid in lines},
             "lines of new workers")

    def begin_period(self):
        period = self.now // PERIOD
        if 0 <= self.now and period <= MOST_PERIOD:
            self.filters["w"].begin(period)

    def reload(self, http=HTTP):
        """It is refused if the configuration contradicts a filter, or there is no list."""
        self.nginx.http = http
        if http == HTTP and self.file[1] in LISTED:  # the master may read all files
            self.nginx.write_config()
            self.master_has = self.file
            self.nginx.reload()
            self.connect()
            return
        self.nginx.write_config()
        before = self.nginx.log().count("[emerg]")
        self.nginx.signal(signal.SIGHUP)
        wait_until(lambda: self.nginx.log().count("[emerg]") > before, "the reload is refused")

    def kill(self, worker, path, key):
        """While it answers, or before, or afterwards."""
        worker.connection.send(request(f"{path}?k={key}"))
        if self.r.random() < 0.5:
            worker.connection.sock.recv(1)
        os.kill(worker.pid, signal.SIGKILL)
        worker.connection.close()
        self.begin_period()  # it may have; and the worker in its place does
        wait_until(lambda: worker.pid not in self.nginx.all_workers(), "it has ended")
        self.connect()
        got = dict(zip("twf", self.workers[0].connection.get(f"/seen?k={key}")[1]))  # nobody knows before
        for name in {name[-1] for name in ASKS[path].split() if name.startswith("first")}:
            if got[name] == "1":
                self.filters[name].keys.setdefault(key, self.filters[name].period)
        self.check(self.workers[0], "/seen", key, "".join(got.values()))

    # ---- what is to be in the log ----

    def reported(self, worker, kind, sentence):
        """Once a second, with the number of those that were not."""
        at, others = worker.told.get(kind, (None, 0))
        if at == self.now:
            worker.told[kind] = (at, others + 1)
            return
        worker.told[kind] = (self.now, 0)
        self.expected.append(f"{sentence} ({others} more before)")

    def refused(self, worker, name):
        why = ", as a wrong clock has begun a period to come" if name == "w" and worker.ahead else ""
        self.reported(worker, name, f'"{name}": a key was not added, and counts as seen: the filter is full{why}')

    def look_at_list(self, worker):
        if worker.looked_at == self.now:
            return
        worker.looked_at = self.now
        if self.file[0] == worker.mapped[0]:
            worker.refused = None
            return
        if self.file[1] in LISTED and self.file[1] not in UNREADABLE:
            worker.mapped, worker.refused = self.file, None
            self.expected.append('"l": list has been replaced')
        elif worker.refused != self.file:
            worker.refused = self.file
            why = UNREADABLE.get(self.file[1])
            why = f"input or output error {why}" if why else "not a saved filter, or damaged"
            self.expected.append(f'"l": the list stays as it was, as list cannot be mapped: {why}')

    def lines(self):
        """What the log says of filters since the last look, for each worker."""
        text, said = self.nginx.path("error.log").read_bytes().decode(), {}
        new, self.read = text[self.read:], len(text)
        for pid, line in re.findall(r"\] (\d+)#\d+: (?:\*\d+ )?tamis_filter (.*?)(?:, client: .*)?\n", new):
            if int(pid) in self.nginx.all_workers():
                said.setdefault(int(pid), []).append(line.replace(f"{self.nginx.folder}/", ""))
        return said

    # ---- requests ----

    def follow_clock(self, worker):
        if self.now < 0 or self.now // PERIOD > MOST_PERIOD:
            self.reported(worker, "clock", '"w": a period could not be ended: invalid argument')
            return
        self.begin_period()
        period, running = self.now // PERIOD, self.filters["w"].period
        if period != worker.period:
            worker.period, known, worker.ahead = period, worker.ahead, running if running > period + G + 1 else 0
            if worker.ahead not in (0, known):
                self.expected.append(f'"w": a wrong clock has begun period {running}, and now is period {period}: in between no '
                                     f"key is forgotten; 'tamis window --period {PERIOD} window' puts the number right")

    def answer(self, worker, question, key, got):
        """What a variable says, given what it said where either is right."""
        what, name = question.split("_")
        if name == "l":
            self.look_at_list(worker)
            return key in LISTED[worker.mapped[1]]
        f = self.filters[name]
        if name == "w":
            self.follow_clock(worker)
        if what == "seen" or key in f.keys:
            return (what == "seen") == (key in f.keys)
        if not got and len(f.keys) >= f.capacity:
            self.refused(worker, name)
            return False
        f.keys[key] = f.period
        return True

    def check(self, worker, path, key, got):
        self.expected, known = [], {}
        for question, character in zip(ASKS[path].split(), got):
            if question not in known:
                known[question] = self.answer(worker, question, key, character == "1") if key else False
            same(character, str(int(known[question])), f"{question} of {key}, with the answer {got}")
        same(len(got), len(ASKS[path].split()), got)
        same(self.lines(), {worker.pid: self.expected} if self.expected else {}, "lines in the log")

    def ask(self, worker, path, key):
        self.log.append((self.now, worker.pid, path, key))
        worker.answer = worker.connection.get(f"{path}?k={key}")[1]
        self.check(worker, path, key, worker.answer)
        return worker.answer

    def race(self, key):
        """All workers at once: one is told that it is the first."""
        running = [worker for worker in self.workers if not worker.stopped]
        for worker in running:
            worker.connection.send(request(f"/asks?k={key}"))
        got = [worker.connection.receive(rb"\r\n\r\n([01]{2})", 1)[0] for worker in running]
        f = self.filters["w"]
        winners = sum(answer == b"11" for answer in got)
        self.begin_period()
        same(winners <= (key not in f.keys), True, f"{winners} winners of {key}")
        if winners:
            f.keys[key] = f.period
        refused, lines = b"00" in got, {}
        same(refused, refused and len(f.keys) >= f.capacity, f"{key} is refused")
        same(refused or key in f.keys, True, f"no winner of {key}")
        for worker, answer in zip(running, got):
            self.expected = lines[worker.pid] = []
            self.follow_clock(worker)
            if answer == b"00":
                self.refused(worker, "w")
        same(self.lines(), {pid: expected for pid, expected in lines.items() if expected}, "lines in the log")

    def step(self):
        r, kind = self.r, self.r.random()
        running = [worker for worker in self.workers if not worker.stopped]
        key = r.choice(KEYS[:30] if r.random() < 0.5 else KEYS) if r.random() < 0.97 else ""
        if kind < 0.25:
            ahead = r.choice([0, 1, 1, 5, PERIOD, G * PERIOD, (G + 1) * PERIOD, 7200, 10**7, -1, -PERIOD, -7200])
            self.set_clock(r.choice([-10**6, 2 * 10**11]) if r.random() < 0.05 else
                           ahead + (self.now if 0 <= self.now < 10**11 else 1_800_000_000))
        elif kind < 0.33:
            self.put_list(r.choice(["good", "other", "good", "other", "damaged", "nothing", "old", "old", OTHER, "unlocked"]))
        elif kind < 0.36 and len(running) > 1:
            worker = r.choice(running)
            worker.stopped = True
            os.kill(worker.pid, signal.SIGSTOP)
        elif kind < 0.42:
            self.go_on()
        elif kind < 0.44:
            self.go_on()
            self.kill(r.choice(self.workers), r.choice(list(ASKS)), key or "k1")
        elif kind < 0.45:
            self.go_on()
            self.reload(r.choice([HTTP, HTTP, HTTP.replace("=40 ", "=41 ")]))
        elif kind < 0.46 and self.file[1] in LISTED:
            self.go_on()
            self.restart()
        elif kind < 0.5 and 0 <= self.now < 10**11:
            self.race(key or "k1")
        for _ in range(3):
            self.ask(r.choice([worker for worker in self.workers if not worker.stopped]), r.choice(list(ASKS)), key)
            key = r.choice(KEYS)

    def restart(self):
        """What went by meanwhile is forgotten, and nothing else."""
        self.nginx.stop()
        self.set_clock(self.now + self.r.choice([0, PERIOD, (G + 2) * PERIOD]))
        self.master_has, self.workers, self.read = self.file, [], 0
        self.nginx.path("error.log").unlink()
        self.nginx.http = HTTP
        self.nginx.start()
        self.connect()

    def go_on(self):
        for worker in self.workers:
            if worker.stopped:
                os.kill(worker.pid, signal.SIGCONT)
                worker.stopped = False

    def go(self, steps):
        for number in range(steps):
            try:
                self.step()
            except Exception:
                print(f"# step {number}; before it:", *self.log[-12:], sep="\n#   ")
                raise
        self.go_on()


def test_requests(context):
    seed, steps = int(os.environ.get("TAMIS_SEED", "1")), int(os.environ.get("TAMIS_STEPS", "400"))
    print(f"# TAMIS_SEED={seed} TAMIS_STEPS={steps}")
    run = Run(context, seed)
    run.go(steps)
    print(f"# {len(run.log)} requests")


def test_nginx_has_another_time(context):
    """nginx' own time is that of the last event, or with `timer_resolution` an older one."""
    run = Run(context, main="timer_resolution 1h;")
    for _ in range(150):
        run.set_clock(run.now + run.r.choice([0, 1, PERIOD, G * PERIOD, 7200]))
        run.ask(run.r.choice(run.workers), run.r.choice(["/asks", "/seen"]), run.r.choice(KEYS[:20]))
