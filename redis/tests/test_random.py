# SPDX-License-Identifier: MIT
"""Random commands against a model: every reply, its type in RESP2 and RESP3, keyspace events, and that changes
and they alone are propagated; nothing that was added is ever denied.  Keys are copied, renamed, dumped, restored
by halves, and expire; the clock jumps; the server restarts.  A replica with another libm and other cores stays bit for
bit alike, through full and partial syncs, and takes over at the end.

TAMIS_SEED is the seed of the first test, and the next number that of the second one; TAMIS_STEPS is the number of
commands.  What happens follows from them alone.
"""
import os
import random

import server as servers
from loopback import Clock
from filters import chunks
from model import Dump, Filter, Restoring, String
from server import ReplyError, in_step, same, strict, wait_until

KEYS = [f"key{i}" for i in range(6)]
ITEMS = [str(i).encode() for i in range(300)] + [b"", b"\0\xff\r\n", b"x" * 3000]
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
RESTORED = "ERR the filter is being restored; LOADCHUNK has not had all chunks"
MOST_DUMPS = 8  # that have begun
ADD_BATCH = 256  # of as many added items an event comes
NO_ROOM = {"BF": "full", "CF": "Filter is full"}
DEFAULTS = {"bf-error-rate": 0.01, "bf-initial-size": 100, "bf-expansion-factor": 2, "cf-error-rate": 0.0078,
            "cf-initial-size": 1024, "cf-bucket-size": 2, "cf-max-iterations": 20, "cf-expansion-factor": 1}


class Run:
    """Some thousand commands.  `keys` has what each key must be: a Filter, a Restoring or a String."""

    def __init__(self, context, seed, options):
        self.r, self.lives, self.syncs = (random.Random(seed) for _ in range(3))
        self.clock = Clock(servers.temporary_folder())
        os.environ.update(self.clock.environment)
        self.seed = 1 + seed
        preload = context.beside("set_clock")
        self.server = context.start("--notify-keyspace-events", "Kd", *options, arguments=("seed", self.seed), preload=preload)
        self.replica = context.start("--replicaof", servers.HOST, self.server.port, *options,
                                     preload=f"{preload}:{context.beside('other_machine')}")
        strict(self.replica)
        self.aof = "yes" in options
        self.keys, self.ends, self.settings = {}, {}, dict(DEFAULTS)
        self.dumps, self.payloads, self.sessions = [], [], []
        self.fresh = self.absent = self.wrong = 0
        self.expected, self.log, self.events = 0.0, [], []
        self.connect()
        self.used_before = self.used()
        self.large = [self.large_dump("BF", 2), self.large_dump("BF", 0), self.large_dump("CF", 1)]
        self.heard()

    def connect(self):
        self.clients = [(self.server.connect(2), 1, 0), (self.server.connect(3), True, False)]
        self.watcher, self.listener = self.server.connect(2), self.server.connect(2)
        self.listener("PSUBSCRIBE", "__keyspace@0__:*")

    # ---- states of keys ----

    def put(self, key, value, end=None):
        self.keys[key] = value
        self.ends.pop(key, None)
        if end is not None:
            self.ends[key] = end

    def drop(self, key):
        self.ends.pop(key, None)
        return self.keys.pop(key, None) is not None

    def event(self, kind, key, name):
        self.events.append((key.encode(), f"{'bloom' if kind == 'BF' else 'cuckoo'}.{name}".encode()))

    def heard(self):
        """The keyspace events of the module that have come.  The reply to a PING comes behind them."""
        self.listener.send(["PING"])
        messages = iter(self.listener.receive, [b"pong", b""])
        return [(channel.split(b":", 1)[1], event) for _, _, channel, event in messages]

    def refusal(self, key, kind, none="ERR not found"):
        """The error for a key that has no whole filter of that kind, or None."""
        value = self.keys.get(key)
        if value is None:
            return none
        if value.kind != kind:
            return WRONG_TYPE
        return None if value.whole else RESTORED

    # ---- filters are made ----

    def options(self, kind, form):
        """Words of options, and the filter that they make where the rest is given or by default."""
        r, p, words = self.r, kind.lower(), []
        f = Filter(kind, self.settings[f"{p}-error-rate"], self.settings[f"{p}-initial-size"],
                   self.settings[f"{p}-expansion-factor"], self.seed)
        if kind == "CF":
            f.bucket, f.iterations = self.settings["cf-bucket-size"], self.settings["cf-max-iterations"]
        if form == "insert" and r.random() < 0.5:
            f.capacity = r.choice([20, 100, 300])
            words += ["CAPACITY", f.capacity]
        if (form == "insert" or kind == "CF") and r.random() < 0.5:
            f.rate = r.choice([0.05, 0.01, 0.001])
            words += ["ERROR", f.rate]
        return words, f

    def more_options(self, f, form):
        r, words = self.r, []
        if f.kind == "BF" and r.random() < 0.4:
            f.expansion = 0
            words += ["NONSCALING"]
        elif (f.kind == "BF" or form == "reserve") and r.random() < 0.6:
            f.expansion = r.choice([0, 0, 0, 1, 2, 7, 32768])
            words += ["EXPANSION", f.expansion]
        if f.kind == "CF" and form == "reserve" and r.random() < 0.4:
            f.bucket, f.iterations = r.choice([1, 4, 10]), r.choice([1, 30, 65535])
            words += ["BUCKETSIZE", f.bucket, "MAXITERATIONS", f.iterations]
        if r.random() < 0.25:
            f.seed = r.choice([7, 8])
            words += ["SEED", f.seed]
        if r.random() < 0.1:
            f.max_bytes = r.choice([30000, 100000])
            words += ["MAXBYTES", f.max_bytes]
        if r.random() < 0.5:
            f.window = r.choice([1, 2, 3, 64])
            words += ["WINDOW", f.window]
            if r.random() < 0.7:
                f.every = r.choice([1, 1000, 1000, 3600000])
                words += ["EVERY", f.every]
            if r.random() < 0.5:
                f.renews = True
                words += ["RENEWS"]
        return words

    def create(self, key, f, form="reserve"):
        f.next = self.clock.now + f.every if f.every else 0
        self.put(key, f)
        self.event(f.kind, key, "create" if f.kind == "CF" and form == "insert" else "reserve")

    def large_dump(self, kind, expansion):
        """A dump of several chunks: of its items, the model knows those in ITEMS."""
        capacity = 600000 if kind == "CF" else 2000000
        f = Filter(kind, 0.01, capacity, expansion, 9, bucket=4 * (kind == "CF"), iterations=5 * (kind == "CF"))
        words = [f.rate, f.capacity] if kind == "BF" else [f.capacity, "ERROR", f.rate, "BUCKETSIZE", f.bucket]
        words += [] if kind == "BF" else ["MAXITERATIONS", f.iterations]
        self.server(f"{kind}.RESERVE", "large", *words, "EXPANSION", expansion, "SEED", f.seed)
        for item, reply in zip(ITEMS[:150], self.server(f"{kind}.INSERT", "large", "ITEMS", *ITEMS[:150])):
            f.add(item, kind == "BF", "new" if reply else "in")
        for start in range(0, 60000, 10000):  # so that few lines are empty
            f.count += sum(self.server(f"{kind}.INSERT", "large", "ITEMS", *range(start + 1000, start + 11000)))
        pieces = chunks(self.server, kind, "large")
        assert len(pieces) > 1
        self.server("DEL", "large")
        return Dump(kind, pieces, f)

    # ---- commands: each gives its words, and a function that checks the reply and follows it ----

    def reserve(self, kind, key):
        words, f = self.options(kind, "reserve")
        f.capacity = self.r.choice([20, 60, 100, 300])
        if kind == "BF":
            f.rate = self.r.choice([0.05, 0.01, 0.001])
        words += self.more_options(f, "reserve")

        def check(reply, yes, no):
            error = self.refusal(key, kind, None)
            if key in self.keys:
                return same_error(reply, error or "ERR item exists")
            if f.max_bytes and isinstance(reply, ReplyError):
                return same_error(reply, "ERR could not create filter")
            same(reply, "OK")
            self.create(key, f)
        rate = [f.rate] if kind == "BF" else []
        return [f"{kind}.RESERVE", key, *rate, f.capacity, *words], check

    @staticmethod
    def fills(f):
        """Whether it does not grow, and has room that a batch can fill."""
        return f.is_full() is False and f.expansion == 0 and not f.window and f.capacity <= 300

    def some_items(self, f=None):
        """Items to ask for, or to add to a filter: then now and then as many new ones as just find room, or not."""
        if isinstance(f, Filter) and self.fills(f):
            new = [item for item in ITEMS if not f.copies(item)]
            number = f.capacity - f.count + self.r.choice([-1, 0, 1, 1, 2])
            if self.r.random() < 0.8 and 0 < number <= len(new):
                return self.r.sample(new, number)
        start = self.r.randrange(len(ITEMS))
        number = self.r.choice([1, 2, 12, 12]) if self.r.random() < 0.9 else 290
        return [ITEMS[(start + self.r.randrange(2) * i) % len(ITEMS)] for i in range(number)]

    def add(self, kind, key):
        unique = kind == "BF" or self.r.random() < 0.5
        item = self.some_items()[0]
        f = self.options(kind, "add")[1]
        f.rate, f.capacity = self.settings[f"{kind.lower()}-error-rate"], self.settings[f"{kind.lower()}-initial-size"]
        check = self.adds(kind, key, [item], unique, f, create=True, single=True)
        return [f"{kind}.ADD" if kind == "BF" or not unique else "CF.ADDNX", key, item], check

    def insert(self, kind, key):
        fixed = [each for each, f in self.keys.items() if isinstance(f, Filter) and f.kind == "CF" and self.fills(f)]
        if fixed and self.r.random() < 0.5:
            kind, key = "CF", self.r.choice(fixed)
        unique = kind == "BF" or self.r.random() < 0.5
        items = self.some_items(f=self.keys.get(key))
        words, f = self.options(kind, "insert")
        words += self.more_options(f, "insert")
        create = self.r.random() < 0.8
        words += [] if create else ["NOCREATE"]
        name = f"{kind}.INSERT" if kind == "BF" or not unique else "CF.INSERTNX"
        if kind == "BF" and self.r.random() < 0.3:
            name, words, create = "BF.MADD", [], True
            f = Filter(kind, self.settings["bf-error-rate"], self.settings["bf-initial-size"],
                       self.settings["bf-expansion-factor"], self.seed)
            life = self.life(key, f, ["EX"])
            if life:
                name, words = "BF.MADDEX", [life[1]]
            return [name, key, *words, *items], self.adds(kind, key, items, True, f, create, life=life)
        life = self.life(key, f, ["EX", "PERIODS"])
        return [name, key, *words, *life, "ITEMS", *items], self.adds(kind, key, items, unique, f, create, life=life)

    def life(self, key, new, options):
        """An option that gives items an end, often one that is near that of the window."""
        f = self.keys.get(key, new)
        if self.lives.random() < (0.5 if isinstance(f, Filter) and f.window else 0.95):
            return ()
        if self.lives.choice(options) == "PERIODS":
            return "PERIODS", self.lives.choice([0, 0, 1, 2, 3, 64])
        whole = f.window * f.every // 1000 if isinstance(f, Filter) else 0
        return "EX", max(1, self.lives.choice([1, 2, whole // 2, whole, whole + 1]))

    def adds(self, kind, key, items, unique, new, create, single=False, life=()):
        def result(reply, yes, no):
            if isinstance(reply, ReplyError):
                assert kind == "BF" or single, f"{reply} among the replies"
                assert NO_ROOM[kind] in str(reply), reply
                return "full"
            if kind == "CF" and not single and unique:
                yes, no, none = 1, 0, -1
            else:
                none = False if no is False else -1
            if kind == "CF" and not single and not unique:
                same(reply if reply != yes else "new", none if reply != yes else "new")
                return "new" if reply == yes else "full"
            assert type(reply) is type(yes), f"{reply!r} is of another type than {yes!r}"
            return {yes: "new", no: "in", none: "full"}.get(reply, reply) if reply != no else "in"

        def check(reply, yes, no):
            error = self.refusal(key, kind, None if create else "ERR not found")
            error = error or self.keys.get(key, new).life_error(life)
            if error:
                return same_error(reply, error)
            if key not in self.keys:
                if new.max_bytes and isinstance(reply, ReplyError):
                    return same_error(reply, "ERR could not create filter")
                self.create(key, new, "insert")
            else:
                self.tick(key)
            replies = [reply] if single else reply
            assert isinstance(replies, list), replies
            results = [result(each, yes, no) for each in replies]
            ended = kind == "BF" and "full" in results
            same(len(results), results.index("full") + 1 if ended else len(items), "number of replies")
            periods = self.keys[key].periods(life, self.clock.now)
            for item, each in zip(items, results):
                self.keys[key].add(item, unique, each, periods)
            if "full" in results:
                self.full.add(key)
            for start in range(0, len(results), ADD_BATCH):
                part = results[start:start + ADD_BATCH]
                if "new" in part or self.keys[key].renews and unique and "in" in part:
                    self.event(kind, key, "insert" if kind == "CF" and not single else "add")
        return check

    def exists(self, kind, key):
        items = self.some_items()
        many = len(items) > 1 or self.r.random() < 0.5

        def check(reply, yes, no):
            value, refusal = self.keys.get(key), self.refusal(key, kind)
            if refusal == RESTORED:
                return same_error(reply, RESTORED)
            replies = reply if many else [reply]
            same(len(replies), len(items))
            for item, each in zip(items, replies):
                assert type(each) is type(yes) and each in (yes, no), each
                if refusal:
                    same(each, no)
                elif value.copies(item):
                    same(each, yes, f"{item!r} is in {key}")
        return [f"{kind}.{'M' * many}EXISTS", key, *items], check

    def count(self, kind, key):
        if kind == "BF":
            return self.card(kind, key)
        item = self.some_items()[0]

        def check(reply, yes, no):
            refusal = self.refusal(key, kind)
            if refusal == RESTORED:
                return same_error(reply, RESTORED)
            same(type(reply), int)
            if refusal:
                return same(reply, 0)
            copies = self.keys[key].copies(item)
            assert reply >= copies, f"{reply} copies of {item!r} instead of {copies}"
        return ["CF.COUNT", key, item], check

    def card(self, kind, key):
        def check(reply, yes, no):
            error = self.refusal(key, "BF", None)
            if error:
                return same_error(reply, error)
            value = self.keys.get(key)
            if value is None:
                return same(reply, 0)
            same(type(reply), int)
            self.compare_count(value, reply)
        return ["BF.CARD", key], check

    def info(self, kind, key):
        def check(reply, yes, no):
            error = self.refusal(key, kind)
            if error:
                return same_error(reply, error)
            same(type(reply), dict if yes is True else list)
            figures = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))
            self.compare_figures(self.keys[key], {str(name): value for name, value in figures.items()})
        return [f"{kind}.INFO", key], check

    @staticmethod
    def compare_count(f, count):
        """An add of an item that a filter with a window takes for another one renews that one as well, which is
        then remembered for longer; but not for longer than what was added last."""
        if f.count is not None and (not f.window or not f.held()):
            same(count, f.count, f"items of {f.summary()}")
        elif f.count is not None:
            assert count >= f.count, f"items of {f.summary()}: {count} instead of {f.count} or more"

    def compare_figures(self, f, figures):
        self.compare_count(f, figures["Number of items inserted"])
        if f.kind == "CF":
            buckets = 1
            while buckets < f.capacity // (f.bucket or 1):
                buckets *= 2
            for name, value in (("Number of items deleted", f.deleted), ("Bucket size", f.bucket),
                                ("Expansion rate", f.expansion), ("Max iterations", f.iterations),
                                ("Number of buckets", buckets)):
                same(figures[name], value, name)
        else:
            same(figures["Expansion rate"], f.expansion or None)
            same(figures["Capacity"], f.capacity << figures["Number of filters"] - 1)
            if not f.expansion:
                same(figures["Number of filters"], 1)

    def remove(self, kind, key):
        """Only of an item that is in, as the model knows for certain."""
        value = self.keys.get(key)
        if not (isinstance(value, Filter) and value.kind == "CF" and value.held()):
            def refused(reply, yes, no):
                same_error(reply, RESTORED if isinstance(value, Restoring) and value.kind == "CF" else "ERR Not found")
            return (["CF.DEL", key, "x"], refused) if not isinstance(value, Filter) or value.kind == "BF" \
                else self.count("CF", key)
        then = value.copy()
        then.tick(self.clock.now)
        if not then.held():
            return self.count("CF", key)
        item = self.r.choice(then.held())

        def check(reply, yes, no):
            self.tick(key)
            same(reply, yes, f"CF.DEL of {item!r}")
            self.keys[key].remove(item)
            self.event("CF", key, "del")
        return ["CF.DEL", key, item], check

    def compact(self, kind, key):
        def check(reply, yes, no):
            value = self.keys.get(key)
            if value is None or value.kind != "CF":
                return same_error(reply, "ERR Cuckoo filter was not found")
            if not value.whole:
                return same_error(reply, RESTORED)
            same(reply, "OK")
            if value.deleted:
                self.event("CF", key, "compact")
            value.deleted = 0
        return ["CF.COMPACT", key], check

    def tick(self, key):
        if self.keys[key].tick(self.clock.now):
            self.event(self.keys[key].kind, key, "advance")

    def advance(self, kind, key):
        periods = self.r.choice([1, 1, 2, 5, 10**15])

        def check(reply, yes, no):
            error = self.refusal(key, kind)
            if error or not self.keys[key].window:
                return same_error(reply, error or "ERR the filter has no window")
            same(reply, "OK")
            self.keys[key].advance(periods)
            self.event(kind, key, "advance")
        return [f"{kind}.ADVANCE", key, *([periods] if periods > 1 else [])], check

    def merge(self, kind, key):
        to = self.keys.get(key)
        fit = [other for other, f in self.keys.items() if other != key and isinstance(f, Filter) and f.kind == kind and
               (not isinstance(to, Filter) or f.fits(to))]
        choice = fit if fit and self.r.random() < 0.7 else KEYS
        sources = [self.r.choice(choice) for _ in range(self.r.choice([1, 1, 2, 3]))]

        def check(reply, yes, no):
            error = self.refusal(key, kind, None)
            for source in sources:
                error = error or self.refusal(source, kind)
                if kind == "CF" and source == key:
                    error = error or "ERR the destination must not be among the sources"
            if error:
                return same_error(reply, error)
            for each in [key, *sources] if isinstance(self.keys.get(key), Filter) else sources:
                self.tick(each)
            to, others = self.keys.get(key), [self.keys[source] for source in sources]
            united = (to or others[0]).copy()
            rest = others if to else others[1:]
            rest = [other for other in rest if other is not to]
            if isinstance(reply, ReplyError):
                unfit = not all(united.fits(other) for other in rest)
                assert unfit or rest and ("do not fit" not in str(reply)), f"{reply}: {united.summary()}"
                return None
            same(reply, "OK")
            for other in rest:
                assert united.may_fit(other), f"{united.summary()} and {other.summary()} have no union"
                united.unite(other)
            if kind == "BF" and to and others and not united.window:
                united.count = None
            self.put(key, united, self.ends.get(key) if to else None)
            self.event(kind, key, "merge")
        return [f"{kind}.MERGE", key, *sources], check

    # ---- chunks ----

    def load_chunk(self, kind, key):
        value = self.keys.get(key)
        if isinstance(value, Restoring) and self.r.random() < 0.65:
            dump, number = value.dump, min(value.loaded, len(value.dump.pieces) - 1)
        elif isinstance(value, Restoring):  # of another dump, where there is one
            dump = self.r.choice([each for each in self.large if each.kind == value.kind and each is not value.dump] or
                                 self.large)
            number = min(value.loaded, len(dump.pieces) - 1)
        else:
            dump = self.r.choice(self.large if self.r.random() < 0.5 else self.dumps or self.large)
            number = 0 if self.r.random() < 0.7 else self.r.randrange(len(dump.pieces))
            key = self.r.choice([k for k in KEYS if k not in self.keys] or [key])
        cursor, data = dump.pieces[number]
        damage = self.r.random()
        sound = damage > 0.1
        if damage < 0.03:
            at = self.r.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << self.r.randrange(8)]) + data[at + 1:]
        elif damage < 0.06:
            data = data[:self.r.randrange(len(data))]
        elif not sound:
            cursor += 1
        family = dump.kind if self.r.random() < 0.95 else kind
        return [f"{family}.LOADCHUNK", key, cursor, data], self.loads(key, family, dump, number, sound)

    def loads(self, key, family, dump, number, sound):
        def check(reply, yes, no):
            value = self.keys.get(key)
            loaded = value.loaded if isinstance(value, Restoring) else 0
            if value is not None and value.kind != family:
                return same_error(reply, WRONG_TYPE)
            again = value is not None and value.whole and getattr(value, "pieces", None) == dump.pieces
            if again and sound and number == len(dump.pieces) - 1 and reply == "OK":
                return None  # unless it has been a copy or in an RDB file since
            if not sound or family != dump.kind or value is not None and value.whole:
                return same_error(reply, "ERR")
            if isinstance(value, Restoring) and value.dump.pieces != dump.pieces or number > loaded:
                return same_error(reply, "ERR")
            same(reply, "OK", f"chunk {number} after {loaded}")
            if number == len(dump.pieces) - 1:
                self.put(key, dump.filter.copy(), self.ends.get(key))
                self.keys[key].pieces = dump.pieces
            elif number == loaded:
                self.put(key, Restoring(dump, loaded + 1), self.ends.get(key))
            if number == loaded:
                self.event(family, key, "loadchunk")
        return check

    def scan(self, kind, key):
        """One chunk of a dump that has begun, or the first one.  What it was of may have changed meanwhile."""
        if not self.sessions or self.r.random() < 0.4:
            value = self.keys.get(key)
            kind = value.kind if isinstance(value, Filter) else kind
            session = {"key": key, "kind": kind, "cursor": 0, "pieces": [], "filter": None}
        else:
            session = self.sessions.pop(self.r.randrange(len(self.sessions)))
            key, kind = session["key"], session["kind"]
        first = not session["cursor"]

        def check(reply, yes, no):
            error = self.refusal(key, kind)
            if error:
                return same_error(reply, error)
            value = self.keys[key]
            if first and kind == "CF" and value.count == 0:
                return same(reply, [0, None])
            if isinstance(reply, ReplyError):
                assert not first, reply
                return same_error(reply, "ERR the filter has changed since that chunk")
            session["filter"] = session["filter"] or value.copy()
            cursor, data = reply
            if cursor == 0:
                same(data, None if kind == "CF" else b"")
                self.dumps.append(Dump(kind, session["pieces"], session["filter"]))
                self.dumps = self.dumps[-8:]
            else:
                session["pieces"].append((cursor, data))
                session["cursor"] = cursor
                self.sessions.append(session)
        return [f"{kind}.SCANDUMP", key, session["cursor"]], check

    # ---- commands of keys in general ----

    def dump(self, kind, key):
        def check(reply, yes, no):
            same(type(reply), bytes if key in self.keys else type(None))
            if reply:
                self.payloads = self.payloads[-5:] + [(reply, self.keys[key].copy())]
        return ["DUMP", key], check

    def restore(self, kind, key):
        if not self.payloads:
            return self.dump(kind, key)
        payload, value = self.r.choice(self.payloads)
        replace, ttl = self.r.random() < 0.5, self.r.choice([0, 0, 5000])

        def check(reply, yes, no):
            if key in self.keys and not replace:
                return same_error(reply, "BUSYKEY")
            same(reply, "OK")
            self.put(key, value.copy(), self.clock.now + ttl if ttl else None)
        return ["RESTORE", key, ttl, payload, *["REPLACE"] * replace], check

    def copy(self, kind, key):
        other, replace = self.r.choice([k for k in KEYS if k != key]), self.r.random() < 0.5

        def check(reply, yes, no):
            done = key in self.keys and (replace or other not in self.keys)
            same(reply, int(done))
            if done:
                self.put(other, self.keys[key].copy(), self.ends.get(key))
        return ["COPY", key, other, *["REPLACE"] * replace], check

    def rename(self, kind, key):
        other = self.r.choice([k for k in KEYS if k != key])

        def check(reply, yes, no):
            if key not in self.keys:
                return same_error(reply, "ERR no such key")
            same(reply, "OK")
            value, end = self.keys[key], self.ends.get(key)
            self.drop(key)
            self.put(other, value, end)
        return ["RENAME", key, other], check

    def delete(self, kind, key):
        return [self.r.choice(["DEL", "UNLINK"]), key], lambda reply, yes, no: same(reply, int(self.drop(key)))

    def expire(self, kind, key):
        after = self.r.choice([1, 1000, 60000])

        def check(reply, yes, no):
            same(reply, int(key in self.keys))
            if key in self.keys:
                self.ends[key] = self.clock.now + after
        return ["PEXPIRE", key, after], check

    def ttl(self, kind, key):
        def check(reply, yes, no):
            same(reply, self.ends[key] - self.clock.now if key in self.ends else -1 if key in self.keys else -2)
        return ["PTTL", key], check

    def string(self, kind, key):
        def check(reply, yes, no):
            same(reply, "OK")
            self.put(key, String())
        return ["SET", key, "x"], check

    def setting(self, kind, key):
        name = self.r.choice(list(DEFAULTS))
        others = {"error-rate": 0.02, "initial-size": 150, "expansion-factor": self.r.choice([0, 3])}
        value = DEFAULTS[name] if self.r.random() < 0.5 else others.get(name.split("-", 1)[1], 5)

        self.settings[name] = value  # at once: commands behind it in a pipeline are made with it
        return ["CONFIG", "SET", f"tamis.{name}", value], lambda reply, yes, no: same(reply, "OK")

    # ---- the run ----

    COMMANDS = {"reserve": 6, "add": 16, "insert": 16, "exists": 8, "count": 4, "info": 4, "remove": 10, "advance": 5,
                "merge": 10, "load_chunk": 14, "scan": 12, "dump": 3, "restore": 4, "copy": 4, "rename": 4,
                "delete": 6, "expire": 4, "ttl": 2, "string": 1, "setting": 1, "compact": 2}

    def command(self, names=None):
        name = self.r.choice(names) if names else self.r.choices(list(self.COMMANDS), self.COMMANDS.values())[0]
        key = self.r.choice(KEYS)
        halves = [each for each in KEYS if isinstance(self.keys.get(each), Restoring)]
        if name in ("load_chunk", "copy", "rename", "dump") and halves and self.r.random() < 0.6:
            key = self.r.choice(halves)
        value = self.keys.get(key)
        kind = value.kind if value and value.kind in NO_ROOM and self.r.random() < 0.9 else self.r.choice(["BF", "CF"])
        return getattr(self, name)(kind, key)

    def step(self):
        client, yes, no = self.r.choice(self.clients)
        how = self.r.random()
        if how < 0.70:
            self.follow([self.command()], client.pipeline, yes, no)
        elif how < 0.80:
            self.watched(client, yes, no)
        else:
            group = [self.command() for _ in range(self.r.randrange(2, 8))]
            # A remove is decided by what is in before it.
            group = group[:1] + [each for each in group[1:] if each[0][0] != "CF.DEL"]
            whole = how < 0.9
            self.follow(group, (lambda words: self.transaction(client, words)) if whole else client.pipeline, yes, no)

    def follow(self, group, send, yes, no):
        words = [each[0] for each in group]
        self.log = self.log[-30:] + [[str(word[:40] if isinstance(word, bytes) else word) for word in each[:14]]
                                     for each in words]
        self.events, self.full = [], set()
        for (_, check), reply in zip(group, send(words)):
            check(reply, yes, no)
        same(self.heard(), self.events, "keyspace events")
        for key in self.full & self.keys.keys():
            self.look(key)

    def transaction(self, client, commands):
        replies = client.pipeline([["MULTI"], *commands, ["EXEC"]])
        same(replies[:-1], ["OK"] + ["QUEUED"] * len(commands))
        return replies[-1]

    def watched(self, client, yes, no):
        """Who watches the keys, and who saves or replicates them, learns of every change, and of changes alone."""
        command = self.command(["reserve", "add", "insert", "remove", "advance", "merge", "load_chunk", "copy", "rename"])
        words = command[0]
        keys = [word for word in words if word in KEYS]
        before = [self.server("DUMP", key) for key in keys]
        self.watcher("WATCH", "another", *keys)
        changes = self.server.client.info("persistence", "rdb_changes_since_last_save")
        self.follow([command], client.pipeline, yes, no)
        changes = self.server.client.info("persistence", "rdb_changes_since_last_save") - changes
        changed = [self.server("DUMP", key) for key in keys] != before
        told = self.watcher.pipeline([["MULTI"], ["EXEC"]])[1] is None
        what = f"{words[0]} of {keys} changes something: {changed}, and is announced: {told}, {changes}"
        assert told and changes or not changed, what
        if words[0][:3] in ("BF.", "CF."):
            assert told == bool(changes) == bool(self.events), what

    def jump(self, key=None):
        """The clock goes on, or back, now and then to about the end of a period.  Keys that have expired are gone
        before it may go back."""
        timed = [key for key, f in self.keys.items() if isinstance(f, Filter) and f.every > 1]
        key = key or (self.r.choice(timed) if timed and self.r.random() < 0.7 else None)
        far = self.r.choice([1, 300, 700, 700, 1100, 1600, 2500, 5000, 10**8, -1, -3000, -10**7])
        if key:
            f = self.keys[key]
            far = f.next - self.clock.now + self.r.choice([-1, 0, 0, f.every // 2, f.every - 1])
        self.clock.set(self.clock.now + far)
        self.server("EXISTS", *KEYS)
        for expired in [each for each, end in self.ends.items() if self.clock.now > end]:
            self.drop(expired)
        same(self.server("DBSIZE"), len(self.keys))
        if key in self.keys:
            self.add_and_look(key)
            if self.r.random() < 0.5:
                self.jump(key)

    def add_and_look(self, key):
        self.follow([self.add(self.keys[key].kind, key)], self.server.client.pipeline, 1, 0)
        self.look(key)

    def look(self, key):
        """All answers of a filter, which must not deny what is in."""
        f = self.keys[key]
        same(self.server("PTTL", key), self.ends[key] - self.clock.now if key in self.ends else -1)
        usage = self.server("MEMORY", "USAGE", key)
        if isinstance(f, Restoring):
            least = sum(len(data) for _, data in f.dump.pieces[:f.loaded])
            assert least <= usage <= least + 1000, f"{usage} bytes of {key}, which has chunks of {least}"
        if not isinstance(f, Filter):
            return None
        new = [f"absent {self.fresh + i}" for i in range(30)]
        self.fresh += 30
        found = self.server(f"{f.kind}.MEXISTS", key, *ITEMS, *new)
        for item, each in zip(ITEMS, found):
            assert each or not f.copies(item), f"{key} denies {item!r}: {f.summary()}"
        self.absent += len(new)
        self.expected += len(new) * f.rate
        self.wrong += sum(found[len(ITEMS):])
        counts = self.server.client.pipeline([["CF.COUNT", key, item] for item in ITEMS[::7]] if f.kind == "CF" else [])
        for item, copies in zip(ITEMS[::7], counts):
            assert copies >= f.copies(item), f"{copies} copies of {item!r}, not {f.copies(item)}"
        words, check = self.info(f.kind, key)
        figures = self.server(*words)
        check(figures, 1, 0)
        return found[:len(ITEMS)], counts

    def look_at_all(self):
        same(sorted(self.server("KEYS", "*")), sorted(key.encode() for key in self.keys))
        return {key: self.look(key) for key in self.keys}

    def look_at_replica(self):
        """It has all that its master has, after a partial sync and, now and then, after a full one as well.  A filter
        notes that it has refused an item, which is not propagated."""
        for full in [False, True] if self.syncs.random() < 0.4 else [False]:
            if full:
                self.server("DEBUG", "CHANGE-REPL-ID")
            self.server("CLIENT", "KILL", "TYPE", "replica")
            in_step(self.server, self.replica)
            for key, f in self.keys.items():
                alike = self.replica("DUMP", key) == self.server("DUMP", key)
                assert alike or isinstance(f, Filter) and f.refused, f"{key} is not bit for bit alike on the replica: {f}"

    def again(self):
        """The server reads all again, from RDB or AOF, with or without a new process."""
        free = [key for key in KEYS if key not in self.keys]
        if free:  # for a filter that is half restored
            dump = self.r.choice(self.large)
            words = [f"{dump.kind}.LOADCHUNK", free[0], *dump.pieces[0]]
            self.follow([(words, self.loads(free[0], dump.kind, dump, 0, True))], self.server.client.pipeline, 1, 0)
        before = self.look_at_all()
        dumps = {key: self.server("DUMP", key) for key in self.keys}
        how = self.r.choice(["DEBUG LOADAOF", "rewrite", "rewrite", "restart"] if self.aof else ["DEBUG RELOAD NOSAVE", "restart"])
        self.log.append([how])
        if how == "rewrite":
            self.server.rewrite()
            how = "DEBUG LOADAOF"
        if not self.aof:
            self.server.save()
        if how == "restart":
            self.server.kill()
            self.server.start()
            self.connect()
            self.settings, self.sessions = dict(DEFAULTS), []
        else:
            same(self.server(*how.split()), "OK")
        for key, state in self.look_at_all().items():
            assert state == before[key], f"{key} answers otherwise after {how}"
            assert self.server("DUMP", key) == dumps[key], f"DUMP of {key} differs after {how}"
        self.heard()  # what the AOF has brought
        self.look_at_replica()
        for key in [each for each, f in self.keys.items() if isinstance(f, Filter)]:
            self.add_and_look(key)

    def end(self):
        """Nothing of what was there is left.  Other dumps take the places of those that have not ended."""
        self.server("FLUSHALL")
        self.clock.set(self.clock.now + 10**6)
        self.server.client.pipeline([["BF.ADD", key, "x"] for key in range(MOST_DUMPS)])
        begun = [self.server("BF.SCANDUMP", key, 0)[0] for key in range(MOST_DUMPS)]
        for key, cursor in enumerate(begun):
            same(self.server("BF.SCANDUMP", key, cursor), [0, b""])
        self.server("FLUSHALL")
        for client, _, _ in self.clients:
            client.close()
        most = self.used_before + 1_500_000  # the server itself keeps buffers
        wait_until(lambda: self.used() < most, "memory comes back")

    def used(self):
        return self.server.client.info("memory", "used_memory") - self.server.client.info("memory", "mem_replication_backlog")

    def go(self, steps):
        for number in range(steps):
            try:
                self.step()
                if self.r.random() < 0.2:
                    self.jump()
                if number % 8 == 0 and self.keys:
                    self.look(self.r.choice(list(self.keys)))
                if number % 100 == 99:
                    self.again()
            except Exception:
                print(f"# step {number}; before it:")
                for words in self.log[-12:]:
                    print("#  ", *words)
                print("# the replica's log:", self.replica.log()[-2000:])
                raise
        self.look_at_replica()
        self.replica("REPLICAOF", "NO", "ONE")
        for key in [each for each, f in self.keys.items() if isinstance(f, Filter) and not f.refused]:
            words = self.add(self.keys[key].kind, key)[0]
            replies = [repr(each.client.pipeline([words])) for each in (self.replica, self.server)]
            same(*replies, "a replica that has taken over")
        self.end()
        most = self.expected + 5 * self.expected**0.5 + 3
        print(f"# {self.wrong} of {self.absent} absent items found, about {self.expected:.0f} expected at most")
        assert self.wrong <= most, f"{self.wrong} wrong answers, {most:.0f} at most"


def same_error(reply, text):
    assert isinstance(reply, ReplyError) and str(reply).startswith(text), f"{reply!r} instead of the error {text!r}"


def run(context, further, *options):
    seed, steps = int(os.environ.get("TAMIS_SEED", "1")) + further, int(os.environ.get("TAMIS_STEPS", "700"))
    print(f"# TAMIS_SEED={seed} TAMIS_STEPS={steps}")
    Run(context, seed, ("--rdbcompression", "no", *options)).go(steps)


AOF = ("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0", "--aof-use-rdb-preamble")


def test_commands_and_rdb(context):
    run(context, 0, "--repl-diskless-sync", "no")


def test_commands_and_aof(context):
    run(context, 1, *AOF, "no", "--repl-diskless-sync", "yes", "--repl-diskless-load", "swapdb")
