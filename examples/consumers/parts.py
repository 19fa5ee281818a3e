# SPDX-License-Identifier: MIT
"""The programs under test, and what their files say afterwards."""
import collections
import re
import subprocess
import time
import urllib.error
import urllib.request

from loopback import HOST, Process, free_port, wait_until

EFFECT = re.compile(r"(\d+\.\d{6}) (\d+) (\d+) ([a-z]+\d{9})")
SAVED = re.compile(r"^\[[\d.]+\] saved \d+ more; the save began at ([\d.]+)$", re.M)
ENDED = ": ending when the works under way are done"

Effect = collections.namedtuple("Effect", "time pid thread id")


class NotMade(Exception):
    """The work that a situation needs has ended before the situation was made, as on a busy machine."""


class Life:
    """One run of a consumer, from its start to its end or its death."""

    def __init__(self, pid, begin, log_begin):
        self.pid, self.begin, self.log_begin, self.log = pid, begin, log_begin, None

    @property
    def last_save(self):
        """When the last save began that is known to be complete."""
        return max(map(float, SAVED.findall(self.log)), default=0)

    @property
    def ended(self):
        """Whether it was not killed: then the last save holds everything."""
        return ENDED in self.log and self.last_save > 0


class Consumer:
    def __init__(self, programs, folder, url, queue, *options, window=None, effects=None):
        folder.mkdir(parents=True, exist_ok=True)
        self.window = window or folder / "window.tamis"
        self.effects = effects or folder / "effects"
        self.port = free_port()
        self.process = Process([programs / "consume", "--queue", queue, "--window", self.window, "--effects",
                                self.effects, "--metrics", self.port, *options], folder, AMQP_URL=url)
        self.lives = []

    def start(self):
        log_begin, begin = len(self.process.log()) if self.lives else 0, time.monotonic()
        self.process.start()
        self.lives.append(Life(self.process.process.pid, begin, log_begin))
        return self

    def ready(self):
        """Waits until it answers."""
        assert self.process.wait_for(lambda: self.metrics() is not None, 60), self.log()
        return self

    def _ended(self):
        self.lives[-1].log = self.process.log()[self.lives[-1].log_begin :]

    def kill(self):
        self.process.kill()
        self._ended()

    def end(self):
        """SIGTERM, and the exit status."""
        status = self.process.end(60)
        self._ended()
        return status

    def status(self, seconds=60):
        """The exit status of a process that ends by itself."""
        status = self.process.wait(seconds)
        self._ended()
        return status

    def restart(self):
        self.kill()
        return self.start().ready()

    def log(self):
        return self.process.log()[self.lives[-1].log_begin :]

    def metrics(self):
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}/metrics", timeout=10) as page:
                text = page.read().decode()
        except (OSError, urllib.error.URLError):
            return None
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}

    def metric(self, name):
        """-1, if it is not alive, or does not answer in time again and again."""
        figures = self.metrics()
        for _ in range(5):
            if figures is not None or not self.process.alive():
                break
            figures = self.metrics()
        return (figures or {}).get(f"consumers_{name}", -1)

    def wait(self, condition, what, seconds=60):
        try:
            wait_until(condition, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-3000:]}") from None

    def wait_metric(self, name, least, seconds=60):
        self.wait(lambda: self.metric(name) >= least, f"{name} >= {least}", seconds)

    def wait_claimed(self, worked=0):
        """Until a thread works on a message, after so many works."""
        claims = 'tamis_keys{name="claims"}'
        self.wait_while_it_works(lambda: (self.metrics() or {}).get(claims) == 1, "a claim", worked)

    def wait_while_it_works(self, condition, what, worked=0):
        """Until the condition is true, after so many works.  NotMade, if another work has ended by then."""
        self.wait(lambda: condition() or len(self.works()) > worked, what)
        self.still_works(what, worked)

    def still_works(self, what, worked=0):
        if len(self.works()) > worked:
            raise NotMade(what)

    def wait_idle(self, received, seconds=60):
        """Until it has had so many deliveries, and has none of them any more."""
        self.wait_metric("received_total", received, seconds)
        self.wait(lambda: self.metric("in_hand") == 0, "nothing in hand", 2 * seconds)

    def wait_forgotten(self, seconds=20):
        """Until its window is empty, or long enough: it may be late.  A copy shows what it still has."""
        until = time.monotonic() + seconds
        while (self.metrics() or {}).get('tamis_keys{name="done"}') != 0 and time.monotonic() < until:
            time.sleep(0.05)
        return self

    def works(self):
        return [Effect(float(m[1]), int(m[2]), int(m[3]), m[4])
                for m in map(EFFECT.fullmatch, self.effects.read_text().splitlines()) if m]


class Publisher:
    """publish, for the queues QUEUE.0, QUEUE.1 and so on."""

    def __init__(self, programs, folder, url, queue, queues=1):
        self.command = [programs / "publish", "--queue", queue, "--queues", queues]
        self.folder, self.url = folder, url

    def start(self, *options):
        return Process([*self.command, *options], self.folder, AMQP_URL=self.url).start()

    def publish(self, *options):
        """What the program says at its end, as a mapping."""
        process = self.start(*options)
        assert process.wait(120) == 0, process.log()
        return result(process)

    def depth(self):
        command = [*map(str, self.command), "--depth"]
        done = subprocess.run(command, env={"AMQP_URL": self.url}, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)


def result(process):
    words = process.log().rstrip().rpartition("\n")[2].split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2])}


def repeats(consumer):
    """Of one consumer's works: (worked twice by one life, worked again although a save held it, worked
    again although its life ended cleanly, worked again and not held by the save, and how many works may
    be repeated at most)."""
    by_pid = collections.defaultdict(list)
    for life in consumer.lives:
        by_pid[life.pid].append(life)

    def life_of(work):
        # Process numbers are used again.
        return [life for life in by_pid[work.pid] if life.begin <= work.time][-1]

    held = {}  # (life, thread): the time before which that thread's works are in the last save
    works = [(work, life_of(work)) for work in sorted(consumer.works())]
    by_thread = collections.defaultdict(list)
    for work, life in works:
        by_thread[life, work.thread].append(work.time)
    bound = 0
    for (life, thread), times in by_thread.items():
        if life.ended:
            held[life, thread] = float("inf")
            continue
        # A thread writes its line, and then adds the message to the window.  So of the lines before the
        # save, the window has had all but the last one.
        before = [time for time in times if time < life.last_save]
        held[life, thread] = before[-1] if before else 0
        bound += len(times) - max(len(before) - 1, 0)
    last = {}
    twice = saved = clean = again = 0
    for work, life in works:
        earlier, earlier_life = last.get(work.id, (None, None))
        last[work.id] = work, life
        if earlier is None:
            continue
        if earlier_life is life:
            twice += 1
        elif earlier_life.ended:
            clean += 1
        elif earlier.time < held[earlier_life, earlier.thread]:
            saved += 1
        else:
            again += 1
    return twice, saved, clean, again, bound
