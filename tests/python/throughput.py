"""How fast the stock client publishes, and how fast it is served: what `make bench` times.

publish:  publishes --count messages with its default batching: six properties and 1 KiB each
consume:  subscribes from the first message on, acknowledges each, ends after --count

Says {"seconds": s}: the time between the first and the last message, without the start of the interpreter.
"""

import argparse
import random
import time

import pulsar
from common import client, say

REGIONS = ["us-east", "eu-west", "ap-east"]


def properties(n, passing, chance):
    """Six properties. All of them pass `demo.UrgentWest`, or a quarter."""
    west = passing == "all" or chance.randrange(1000) < 417
    return {
        "tenant": f"tenant-{n % 37:04}",
        "region": "us-west" if west else chance.choice(REGIONS),
        "order-id": f"order-{chance.randrange(1 << 48):012x}",
        "priority": str(7 if passing == "all" else chance.randrange(10)),
        "source": "checkout-service",
        "trace": f"{chance.randrange(1 << 127):032x}",
    }


def passes(properties):
    return properties["region"] == "us-west" and int(properties["priority"]) > 3


def publish(connection, arguments):
    chance = random.Random(arguments.seed)
    messages = [properties(n, arguments.passing, chance) for n in range(arguments.count)]
    payload = bytes(chance.randrange(256) for _ in range(1024))
    producer = connection.create_producer(arguments.topic, block_if_queue_full=True)
    failed = []

    def answered(result, _message_id):
        if result != pulsar.Result.Ok:
            failed.append(str(result))

    begun = time.perf_counter()
    for message in messages:
        producer.send_async(payload, answered, properties=message)
    producer.flush()
    seconds = time.perf_counter() - begun
    if failed:
        raise SystemExit(f"not published: {failed[:5]}")
    say(seconds=seconds, passing=sum(map(passes, messages)))


def consume(connection, arguments):
    begun = time.perf_counter()
    consumer = connection.subscribe(
        arguments.topic, "bench", initial_position=pulsar.InitialPosition.Earliest
    )
    for _ in range(arguments.count):
        message = consumer.receive(timeout_millis=60_000)
        consumer.acknowledge(message)
    say(seconds=time.perf_counter() - begun)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["publish", "consume"])
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--passing", choices=["all", "quarter"], default="all")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    connection = client(arguments.url)
    {"publish": publish, "consume": consume}[arguments.what](connection, arguments)
    connection.close()


main()
