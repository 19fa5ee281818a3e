# SPDX-License-Identifier: MIT
"""What a filter of the module must answer, by exact sets and counts.  An item that is not in may still
seem so: then the model takes what the server says, and what follows from it."""
import copy
import dataclasses


@dataclasses.dataclass
class Filter:
    kind: str  # BF or CF
    rate: float
    capacity: int
    expansion: int
    seed: int
    max_bytes: int = 0
    bucket: int = 0
    iterations: int = 0
    window: int = 0
    every: int = 0
    renews: bool = False
    next: int = 0  # when the clock ends the period, in milliseconds
    period: int = 0
    deleted: int = 0
    refused: bool = False
    count: int = 0  # None: a union has made it an estimate
    items: dict = dataclasses.field(default_factory=dict)  # item: [copies, period of an add for the window that ends as it does]

    whole = True

    def copy(self):
        return copy.deepcopy(self)

    def copies(self, item):
        copies, period = self.items.get(item, (0, 0))
        return copies if not self.window or self.period - period <= self.window else 0

    def held(self):
        return [item for item in self.items if self.copies(item)]

    def is_full(self):
        """Whether it must refuse, None: it may."""
        if self.expansion == 0 and not self.window and self.count is not None:
            return None if self.max_bytes else self.count >= self.capacity
        distinct = len(self.held())
        may = self.max_bytes or self.count is None or not self.expansion and distinct >= self.capacity
        return None if may else False

    def advance(self, periods):
        self.period += min(periods, self.window + 1)
        self.items = {item: self.items[item] for item in self.held()}
        if self.count is not None:
            self.count = sum(copies for copies, _ in self.items.values())

    def tick(self, now):
        """What the clock does before an add, a union or a remove; whether that is propagated."""
        if self.every and self.next > now + self.every:  # it has gone back
            self.next = now + self.every
            return True
        over = self.every and now >= self.next
        if over:
            periods = 1 + (now - self.next) // self.every
            self.next += periods * self.every
            self.advance(periods)
        return over

    def life_error(self, life):
        """Why items cannot have that life: ("EX", seconds), ("PERIODS", n) or (); else None."""
        if not life:
            return None
        if not self.window:
            return "ERR the filter has no window"
        if life[0] == "EX" and not self.every:
            return "ERR the filter's window has no EVERY"
        whole = life[1] * 1000 > self.window * self.every if life[0] == "EX" else life[1] > self.window
        return "ERR the filter's window is shorter" if whole else None

    def periods(self, life, now):
        if not life:
            return self.window
        return life[1] if life[0] == "PERIODS" else max(0, -((self.next - now - life[1] * 1000) // self.every))

    def add(self, item, unique, result, periods=None):
        """An add with this result: new, in or full.  Raises where it cannot be."""
        copies, full = self.copies(item), self.is_full()
        added = self.period if periods is None else self.period - self.window + periods
        end = max(self.items[item][1], added) if copies else added
        if unique and copies:
            assert result == "in", f"{item!r} is in, but the add says {result}"
            if self.renews:
                self.items[item][1] = end
            return
        allowed = {True: ["full"], False: ["new"], None: ["new", "full"]}[full] + ["in"] * unique
        assert result in allowed, f"the add of {item!r} says {result}, not {allowed}: {self.summary()}"
        self.refused = self.refused or result == "full"
        if result == "new":
            self.items[item] = [copies + 1, end]
            self.count = None if self.count is None else self.count + 1
        elif result == "in" and self.kind == "BF" and not self.window:
            self.items[item] = [1, 0]  # what a Bloom filter has said once, it says for ever

    def remove(self, item):
        self.items[item][0] -= 1
        self.count = None if self.count is None else self.count - 1
        self.deleted += 1

    def may_fit(self, other):
        """Whether a union is possible.  Filters whose capacity or rate differ a little may have equal tables."""
        return (self.seed, self.window, not self.expansion) == (other.seed, other.window, not other.expansion)

    def fits(self, other):
        return self.may_fit(other) and (self.rate, self.capacity) == (other.rate, other.capacity)

    def unite(self, other):
        for item in other.held():
            copies, period = other.items[item]
            mine = self.copies(item)
            period = self.period - (other.period - period)
            if mine:
                period = max(period, self.items[item][1])
            self.items[item] = [mine + copies if self.kind == "CF" else 1, period]
        exact = self.kind == "CF" and self.count is not None and other.count is not None
        self.count = self.count + other.count if exact else None

    def summary(self):
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "items"}


@dataclasses.dataclass
class Dump:
    """All chunks of a filter, and what it was then."""
    kind: str
    pieces: list  # (cursor, data)
    filter: Filter


@dataclasses.dataclass
class Restoring:
    """A filter that has had the first chunks of a dump."""
    dump: Dump
    loaded: int

    whole = False

    @property
    def kind(self):
        return self.dump.kind

    def copy(self):
        return Restoring(self.dump, self.loaded)


class String:
    """A key of another type."""
    kind, whole = "string", True

    def copy(self):
        return self
