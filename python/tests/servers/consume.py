#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Consumers of a RabbitMQ queue work each message once by tamis.Once, and are killed at random.

    consume.py [--messages N] [--consumers N] [--kills N] [--seed N]

The messages and copies of them come to one queue, from which several processes consume.  What is worked is written
to a file, whose lines are counted at the end: each message is there, and one more time at most for each kill.
"""
import argparse
import collections
import os
import pathlib
import random
import signal
import sys
import time

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE / "tests/support"))
QUEUE = "orders"


def connect(url):
    import pika

    return pika.BlockingConnection(pika.URLParameters(url))


def consume(url, path, effects, seed):
    """A consumer, as a program would have it."""
    import tamis

    once, dice = tamis.Once(path, capacity=1_000_000), random.Random(seed)
    out = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    channel = connect(url).channel()
    channel.basic_qos(prefetch_count=20)

    def receive(channel, method, properties, body):
        with once.claim(properties.message_id) as first:
            if first:
                os.write(out, f"{properties.message_id} {os.getpid()}\n".encode())  # the work
                if dice.random() < 0.02:
                    time.sleep(0.005)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(QUEUE, receive)
    channel.start_consuming()


def publish(url, ids):
    import pika

    connection = connect(url)
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    for id in ids:
        channel.basic_publish("", QUEUE, b"body", pika.BasicProperties(message_id=id, delivery_mode=2))
    connection.close()


def waiting(url):
    connection = connect(url)
    count = connection.channel().queue_declare(QUEUE, durable=True).method.message_count
    connection.close()
    return count


def main(folder, options):
    import loopback
    import servers

    dice, kills, effects = random.Random(options.seed), 0, folder / "effects"
    url = servers.RabbitMQ(folder / "rabbitmq").url
    ids = [f"order {i}" for i in range(options.messages)]
    deliveries = ids + dice.choices(ids, k=options.messages // 2)
    dice.shuffle(deliveries)
    publish(url, deliveries)

    def start(number):
        python = [sys.executable, __file__, "--consume", url, folder / "done", effects, options.seed + number]
        return loopback.Process(python, folder / f"consumer {number}").start()

    consumers = [start(number) for number in range(options.consumers)]
    for number in range(options.consumers, options.consumers + options.kills):
        time.sleep(dice.uniform(0.3, 1.5))
        victim = dice.randrange(options.consumers)
        assert consumers[victim].alive(), consumers[victim].log()[-2000:]
        consumers[victim].signal(signal.SIGKILL)
        consumers[victim].wait()
        kills += 1
        consumers[victim] = start(number)

    def works():
        return collections.Counter(line.rsplit(" ", 1)[0] for line in effects.read_text().splitlines())

    # What a killed consumer has not acknowledged is in the queue again.
    loopback.wait_until(lambda: waiting(url) == 0 and len(works()) == len(ids), "all is worked", 300)
    for consumer in consumers:
        assert consumer.alive(), consumer.log()[-2000:]
        consumer.kill()
    repeated = sum(works().values()) - len(works())
    print(f"{len(ids)} messages, {len(deliveries)} deliveries, {kills} kills: none lost, {repeated} worked again")
    return repeated <= kills


if __name__ == "__main__":
    if sys.argv[1:2] == ["--consume"]:
        sys.exit(consume(*sys.argv[2:]))
    import loopback

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--consumers", type=int, default=3)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    loopback.supervised(lambda folder: main(folder, arguments))
