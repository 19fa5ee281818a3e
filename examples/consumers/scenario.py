#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Consumers of a RabbitMQ that the scenario starts on loopback: messages come several times, and consumers and the
broker are killed by -9 at random.  All works are counted.

    scenario.py --programs DIR [--messages N] [--kills N] [--seed N]
"""
import collections
import logging
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import pika

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from loopback import Process, scenario, wait_until  # noqa: E402
from servers import RabbitMQ  # noqa: E402

QUEUE = "orders"
PROCESSES, THREADS = 2, 4


class Publisher(threading.Thread):
    """Publishes messages, and copies of a third of them.  When the broker has not confirmed one, as it was killed, the
    message is sent again: nobody knows whether it has come."""

    def __init__(self, url, messages, dice):
        super().__init__(daemon=True)
        self.url, self.sent, self.again = url, 0, 0
        self.todo = []
        for i in range(messages):
            # Some works are slow, and have copies at the same time.
            slow = i % 40 == 0
            self.todo.append((f"order {i}", b"30" if slow else b"0"))
            if slow or dice.random() < 0.3:
                self.todo.insert(len(self.todo) - (0 if slow else dice.randrange(len(self.todo))), self.todo[-1])

    def run(self):
        properties = {id: pika.BasicProperties(message_id=id, delivery_mode=2) for id, _ in self.todo}
        while self.sent < len(self.todo):
            sending = False
            try:
                channel = connect(self.url).channel()
                channel.queue_declare(QUEUE, durable=True)
                channel.confirm_delivery()
                sending = True
                while self.sent < len(self.todo):
                    id, body = self.todo[self.sent]
                    channel.basic_publish("", QUEUE, body, properties[id])
                    self.sent += 1
            except (pika.exceptions.AMQPError, OSError):
                self.again += sending
                time.sleep(0.1)


def connect(url):
    return pika.BlockingConnection(pika.URLParameters(url))


class Scene:
    def __init__(self, folder, options):
        self.dice, self.messages = random.Random(options.seed), options.messages
        self.folder = folder / "consumers"
        self.folder.mkdir()
        self.broker = RabbitMQ(folder / "rabbitmq")
        print("RabbitMQ is started", flush=True)
        command = [options.programs.resolve() / "consume", QUEUE, self.folder, THREADS, 3600, 10**6]
        self.consumers = [Process(command, folder / f"consumer {i}", AMQP_URL=self.broker.url) for i in range(PROCESSES)]
        self.publisher = Publisher(self.broker.url, options.messages, self.dice)
        self.killed, self.broker_killed = set(), 0

    def works(self):
        """(id, process, thread) of each work, in their order."""
        path = self.folder / "effects"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(line.rsplit(" ", 2)) for line in lines]

    def start(self):
        for consumer in self.consumers:
            consumer.start()

    def kill_one(self):
        """Kills a consumer when some more messages have been worked, and starts it again."""
        until = len(self.works()) + self.dice.randrange(20, 80)
        wait_until(lambda: len(self.works()) >= until or not self.publisher.is_alive(), "messages are worked")
        consumer = self.dice.choice(self.consumers)
        assert consumer.alive(), consumer.log()[-2000:]
        self.killed.add(str(consumer.process.pid))
        consumer.kill()
        consumer.start()

    def run(self, kills):
        self.start()
        self.publisher.start()
        for i in range(kills):
            if i == kills // 2:
                self.broker.kill()
                self.broker_killed += 1
                self.broker.start()
            self.kill_one()
        self.publisher.join(600)
        assert not self.publisher.is_alive(), "everything is published"

    def waiting(self):
        connection = connect(self.broker.url)
        count = connection.channel().queue_declare(QUEUE, durable=True).method.message_count
        connection.close()
        return count

    def drain(self):
        """Ends the consumers when the queue is empty.  What they have fetched and not begun goes back to the queue."""
        while True:
            wait_until(lambda: self.waiting() == 0, "the queue is empty", 600)
            for consumer in self.consumers:
                status = consumer.end()
                assert status == 0, f"status {status}: {consumer.log()[-2000:]}"
            if self.waiting() == 0:
                return
            self.start()

    def table(self):
        works = self.works()
        by_id = collections.defaultdict(list)
        for id, process, _ in works:
            by_id[id].append(process)
        again = sum(len(processes) - 1 for processes in by_id.values())
        # A message may be worked again if its worker was killed before the record.
        twice = [id for id, processes in by_id.items() if not self.killed.issuperset(processes[:-1])]
        lost = self.messages - len(by_id)
        deliveries = len(self.publisher.todo)
        print(f"{self.messages} messages, and {deliveries - self.messages} copies of them; {self.publisher.again} times a message was"
              " sent again, as the broker had not confirmed it")
        print(f"{PROCESSES} processes with {THREADS} threads each, which share a filter: {len(self.killed)} times one was killed by"
              f" -9, and the broker {self.broker_killed} times")
        for thread, count in sorted(collections.Counter(thread for _, _, thread in works).items()):
            print(f"  thread {thread} of the processes was the first to claim, and has worked, {count} messages")
        most = len(self.killed) * THREADS
        print(f"{'lost':40} {lost:6}, at most 0\n{'worked twice, no worker was killed':40} {len(twice):6}, at most 0\n"
              f"{'worked again, as the worker was killed':40} {again - len(twice):6}, at most {most}: each thread may have just"
              " worked a message that it has not recorded yet")
        copies = sum(int(line.split()[5]) for consumer in self.consumers for line in consumer.log().splitlines()
                     if line.startswith("worked "))
        print(f"the processes that were not killed have dropped {copies} copies")
        assert lost == 0, f"FAILED: lost: {lost}"
        assert not twice, f"FAILED: worked twice: {twice[:5]}"
        assert again <= most, f"FAILED: worked again: {again}"
        assert copies > 0, "FAILED: no copy was dropped"


def main(folder, options):
    print(f"--seed {options.seed}", flush=True)
    for seconds in "0", "-4", "an hour":
        words = [options.programs.resolve() / "consume", QUEUE, folder, "1", seconds, "1"]
        status = subprocess.run(words, env=os.environ | {"AMQP_URL": "amqp://user:password@localhost:1"},
                                stderr=subprocess.DEVNULL, timeout=60).returncode
        assert status == 2, f"FAILED: SECONDS cannot be '{seconds}'"
    scene = Scene(folder, options)
    scene.run(options.kills)
    scene.drain()
    scene.table()
    return True


if __name__ == "__main__":
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # connections that break are expected
    scenario(main, messages=2000, kills=12)
