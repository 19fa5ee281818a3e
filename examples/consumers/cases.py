# SPDX-License-Identifier: MIT
"""Situations that are made on purpose: each a function case_NAME(setting)."""
import functools
import time

from loopback import free_port, wait_until
from parts import Consumer, NotMade, Publisher
from rabbitmq import Proxy


class Setting:
    """What a case needs, with a queue of its own."""

    def __init__(self, node, programs, folder, name):
        self.node, self.programs, self.folder, self.queue = node, programs, folder, name
        folder.mkdir(parents=True)
        self.publisher = Publisher(programs, folder / "publish", node.url(), name)
        self.consumers = []

    def consumer(self, *options, name="consumer", url=None, **files):
        consumer = Consumer(self.programs, self.folder / name, url or self.node.url(), f"{self.queue}.0",
                            "--figures-every", "1", *options, **files)
        self.consumers.append(consumer)
        return consumer

    def slow(self, milliseconds, *options):
        """Publishes one message, which takes long to work."""
        return self.publisher.publish("-n", 1, "--copies", 0, "--slow-every", 1, "--slow-ms", milliseconds,
                                      *options)


def same(got, wanted, what, consumer):
    assert got == wanted, f"{what}: {got}, not {wanted}\n{consumer.log()[-3000:]}"


def within(seconds):
    """For a case(setting, seconds), whose situation must be made within so many seconds.  If it was not, it
    begins anew, with another queue, and has twice as many."""
    def decorate(case):
        @functools.wraps(case)
        def tried(s):
            limit = seconds
            while True:
                setting = Setting(s.node, s.programs, s.folder / f"{limit}", f"{s.queue}.{limit}")
                try:
                    return case(setting, limit)
                except NotMade as missed:
                    for c in setting.consumers:
                        c.process.kill()
                    assert 2 * limit <= 60, f"not made within {limit} s: {missed}"
                    limit *= 2
        return tried
    return decorate


@within(5)
def case_copies_at_once(s, seconds):
    """Copies of a message that is being worked wait, and are dropped when it is done."""
    c = s.consumer("--threads", 4).start().ready()
    s.slow(1000 * seconds, "--copies", 2, "--distance", 0)
    c.wait_idle(3)
    same(len(c.works()), 1, "works", c)
    same(c.metric("copies_total"), 2, "copies", c)
    if c.metric("held_total") < 2:
        raise NotMade(f"the copies wait: {c.log()}")
    same(c.end(), 0, "exit status", c)


@within(4)
def case_killed_while_it_works(s, seconds):
    """A message whose worker is killed is not lost, although a save came in between."""
    c = s.consumer("--save-every", 0.1).start().ready()
    s.slow(1000 * seconds)
    c.wait_claimed()
    c.wait_metric("saves_total", c.metric("saves_total") + 3)
    c.kill()
    c.still_works("it is killed")
    c.start().ready()
    c.wait_idle(1)
    same(len(c.works()), 1, "works: the message is lost or was worked twice", c)
    same(s.publisher.depth(), 0, "depth", c)
    same(c.end(), 0, "exit status", c)


def case_killed_before_and_after_a_save(s):
    """A copy that comes after a crash is worked again if no save held the message, and dropped otherwise."""
    c = s.consumer("--save-every", 1000).start().ready()
    s.slow(0)
    c.wait_idle(1)
    same(c.metric("unsaved"), 1, "unsaved", c)
    c.restart()
    s.slow(0)
    c.wait_idle(1)
    same(len(c.works()), 2, "works", c)
    same(c.end(), 0, "exit status", c)  # which saves the window
    c.start().ready()
    c.restart()
    s.slow(0)
    c.wait_idle(1)
    same(len(c.works()), 2, "works", c)
    same(c.metric("copies_total"), 1, "copies", c)
    same(c.end(), 0, "exit status", c)


@within(5)
def case_connection_lost_while_it_works(s, seconds):
    """A message that is delivered again while it is being worked waits.  If its worker is killed then, it is
    not lost."""
    proxy = Proxy(s.node.port)
    c = s.consumer("--threads", 4, url=s.node.url(proxy.port)).start().ready()
    s.slow(1000 * seconds)
    c.wait_claimed()
    proxy.cut()
    c.wait_while_it_works(lambda: c.metric("received_total") >= 2 and c.metric("held_total") >= 1,
                          "a copy waits")
    c.kill()
    c.still_works("it is killed")
    c.start().ready()
    c.wait_idle(1)
    same(len(c.works()), 1, "works: the message is lost or was worked twice", c)
    same(c.end(), 0, "exit status", c)
    proxy.close()


@within(4)
def case_acknowledgement_of_an_old_connection(s, seconds):
    """What was delivered by a connection that has broken is not acknowledged over the next one, where its tag
    means another message."""
    proxy = Proxy(s.node.port)
    c = s.consumer("--threads", 1, "--prefetch", 3, url=s.node.url(proxy.port)).start().ready()
    s.publisher.publish("-n", 3, "--copies", 0, "--prefix", "quick")
    c.wait_idle(3)  # so the tag of the next one is 4, and has no message on another connection
    s.slow(1000 * seconds)
    c.wait_claimed(3)
    proxy.cut()
    c.wait_while_it_works(lambda: c.metric("connections_total") >= 2, "another connection", 3)
    c.wait_metric("acknowledged_total", 4, 120)
    same(len(c.works()), 4, "works", c)
    same(c.metric("connections_total"), 2, "connections", c)
    same(c.end(), 0, "exit status", c)
    same(s.publisher.depth(), 0, "depth", c)
    proxy.close()


@within(4)
def case_ended_by_sigterm(s, seconds):
    """SIGTERM lets works end, acknowledges them, and saves the window."""
    c = s.consumer("--save-every", 1000).start().ready()
    s.slow(1000 * seconds)
    c.wait_claimed()
    same(c.end(), 0, "exit status", c)
    same(len(c.works()), 1, "works", c)
    same(s.publisher.depth(), 0, "depth", c)
    s.slow(0)
    c.start().ready()
    c.wait_idle(1)
    same(len(c.works()), 1, "works after", c)
    same(c.metric("copies_total"), 1, "copies", c)
    same(c.end(), 0, "exit status", c)


def case_one_consumer_for_each_queue(s):
    """A second process is refused, by the broker or by the window's lock."""
    first = s.consumer().start().ready()
    wait_until(lambda: "consuming from" in first.log(), "the first one consumes")
    for patience in 0.3, 30:  # the first one is too short for a broker that is slow to answer
        second = s.consumer("--patience", patience, name=f"second{patience}").start()
        same(second.status(120), 1, "exit status", second)
        if "ACCESS_REFUSED" in second.log():
            break
    assert "ACCESS_REFUSED" in second.log(), second.log()
    third = s.consumer(name="third", window=first.window).start()
    same(third.status(), 1, "exit status", third)
    assert "in use by another process" in third.log(), third.log()
    same(first.end(), 0, "exit status", first)


def case_broker_away(s):
    """Clear errors, and the password in none of them."""
    nowhere = s.consumer("--patience", 0.3, url=s.node.url(free_port())).start()
    same(nowhere.status(), 1, "exit status", nowhere)
    assert "nobody answers; giving up" in nowhere.log(), nowhere.log()
    url = s.node.url().replace(s.node.password, "wrong-secret")
    refused = s.consumer(name="refused", url=url).start()
    same(refused.status(), 1, "exit status", refused)
    assert "403 ACCESS_REFUSED" in refused.log(), refused.log()
    for c in nowhere, refused:
        assert s.node.password not in c.log() and "wrong-secret" not in c.log(), c.log()


def case_disk_full(s):
    """A message whose effect cannot be written stays, and a save that fails leaves the last one."""
    c = s.consumer(name="full", effects=s.folder / "full" / "link")
    c.effects.symlink_to("/dev/full")
    c.start().ready()
    s.slow(0)
    c.wait_metric("failed_total", 2)
    assert "No space left on device; messages wait" in c.log(), c.log()
    same(c.end(), 0, "exit status", c)
    same(s.publisher.depth(), 1, "depth", c)

    c = s.consumer("--save-every", 0.2).start().ready()
    c.wait_idle(1)
    same(len(c.works()), 1, "works", c)
    c.wait_metric("saves_total", 1)
    aside = c.window.with_suffix(".aside")

    def has_failed():
        if not c.window.is_symlink():  # a save that was under way may have replaced it
            c.window.rename(aside)
            c.window.symlink_to("/dev/full")
        return c.metric("failed_saves_total") >= 1

    c.wait(has_failed, "a save fails")
    assert "No space left on device; a crash may repeat" in c.log(), c.log()
    c.window.unlink()
    aside.rename(c.window)
    saves = c.metric("saves_total")
    c.wait_metric("saves_total", saves + 1)
    same(c.end(), 0, "exit status", c)


def case_damaged_window(s):
    """A window that is damaged is no reason to forget everything silently."""
    c = s.consumer()
    c.window.write_bytes(b"no filter")
    c.start()
    same(c.status(), 1, "exit status", c)
    assert "cannot load" in c.log(), c.log()


@within(1)
def case_forgotten(s, seconds):
    """A copy that comes later than the window remembers is worked again."""
    c = s.consumer("--remember", seconds, "--periods", 2).start().ready()
    begin = time.monotonic()
    s.slow(0)
    c.wait_idle(1)
    s.slow(0)
    c.wait_idle(2)
    if time.monotonic() - begin >= seconds:
        raise NotMade("a copy that is remembered")
    same(len(c.works()), 1, "works at once", c)
    time.sleep(2 * seconds)
    c.wait_forgotten()
    s.slow(0)
    c.wait_idle(3)
    same(len(c.works()), 2, "works", c)
    same(c.end(), 0, "exit status", c)
    time.sleep(2 * seconds)  # the time in which the process does not run counts, too
    c.start().ready().wait_forgotten(0.3 * seconds)  # not until it forgets by the time in which it runs
    s.slow(0)
    c.wait_idle(1)
    same(len(c.works()), 3, "works", c)
    same(c.end(), 0, "exit status", c)
