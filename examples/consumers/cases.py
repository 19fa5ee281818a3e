# SPDX-License-Identifier: MIT
"""Situations that are made on purpose: each a function case_NAME(setting)."""
import time

from loopback import free_port, wait_until
from parts import Consumer, Publisher
from rabbitmq import Proxy


class Setting:
    """What a case needs, with a queue of its own."""

    def __init__(self, node, programs, folder, name):
        self.node, self.programs, self.folder, self.queue = node, programs, folder, name
        folder.mkdir(parents=True)
        self.publisher = Publisher(programs, folder / "publish", node.url(), name)

    def consumer(self, *options, name="consumer", url=None, **files):
        return Consumer(self.programs, self.folder / name, url or self.node.url(), f"{self.queue}.0",
                        "--figures-every", "1", *options, **files)

    def slow(self, milliseconds, *options):
        """Publishes one message, which takes long to work."""
        return self.publisher.publish("-n", 1, "--copies", 0, "--slow-every", 1, "--slow-ms", milliseconds,
                                      *options)


def same(got, wanted, what, consumer):
    assert got == wanted, f"{what}: {got}, not {wanted}\n{consumer.log()[-3000:]}"


def case_copies_at_once(s):
    """Copies of a message that is being worked wait, and are dropped when it is done."""
    c = s.consumer("--threads", 4).start().ready()
    s.slow(800, "--copies", 2, "--distance", 0)
    c.wait_idle(3)
    same(len(c.works()), 1, "works", c)
    same(c.metric("copies_total"), 2, "copies", c)
    assert c.metric("held_total") >= 2, c.log()
    same(c.end(), 0, "exit status", c)


def case_killed_while_it_works(s):
    """A message whose worker is killed is not lost, although a save came in between."""
    c = s.consumer("--save-every", 0.1).start().ready()
    s.slow(4000)
    c.wait_claimed()
    c.wait_metric("saves_total", c.metric("saves_total") + 3)
    c.restart()
    same(len(c.works()), 0, "works before", c)
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


def case_connection_lost_while_it_works(s):
    """A message that is delivered again while it is being worked waits.  If its worker is killed then, it is
    not lost."""
    proxy = Proxy(s.node.port)
    c = s.consumer("--threads", 4, url=s.node.url(proxy.port)).start().ready()
    s.slow(5000)
    c.wait_claimed()
    proxy.cut()
    c.wait_metric("received_total", 2)
    c.wait_metric("held_total", 1)
    c.restart()
    same(len(c.works()), 0, "works before", c)
    c.wait_idle(1)
    same(len(c.works()), 1, "works: the message is lost or was worked twice", c)
    same(c.end(), 0, "exit status", c)
    proxy.close()


def case_acknowledgement_of_an_old_connection(s):
    """What was delivered by a connection that has broken is not acknowledged over the next one, where its tag
    means another message."""
    proxy = Proxy(s.node.port)
    c = s.consumer("--threads", 1, "--prefetch", 3, url=s.node.url(proxy.port)).start().ready()
    s.publisher.publish("-n", 3, "--copies", 0, "--prefix", "quick")
    c.wait_idle(3)  # so the tag of the next one is 4, and has no message on another connection
    s.slow(4000)
    c.wait_claimed()
    proxy.cut()
    c.wait_metric("acknowledged_total", 4)
    same(len(c.works()), 4, "works", c)
    same(c.metric("connections_total"), 2, "connections", c)
    same(c.end(), 0, "exit status", c)
    same(s.publisher.depth(), 0, "depth", c)
    proxy.close()


def case_ended_by_sigterm(s):
    """SIGTERM lets works end, acknowledges them, and saves the window."""
    c = s.consumer("--save-every", 1000).start().ready()
    s.slow(4000)
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
    second = s.consumer("--patience", 0.3, name="second").start()
    same(second.status(), 1, "exit status", second)
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


def case_forgotten(s):
    """A copy that comes later than the window remembers is worked again."""
    c = s.consumer("--remember", 1, "--periods", 2).start().ready()
    s.slow(0)
    c.wait_idle(1)
    s.slow(0)
    c.wait_idle(2)
    same(len(c.works()), 1, "works at once", c)
    time.sleep(2)
    s.slow(0)
    c.wait_idle(3)
    same(len(c.works()), 2, "works", c)
    same(c.end(), 0, "exit status", c)
    time.sleep(2)  # the time in which the process does not run counts, too
    c.start().ready()
    s.slow(0)
    c.wait_idle(1)
    same(len(c.works()), 3, "works", c)
    same(c.end(), 0, "exit status", c)
