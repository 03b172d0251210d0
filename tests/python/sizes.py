"""Publishes payloads of given sizes, each unbatched, then one larger than any message may be, in chunks.

Says {"sent": size} for each that was acknowledged and {"received": size, "same": bool} for each that came back.
"""

import argparse
import hashlib
import os

import pulsar
from common import client, say


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("--chunked", type=int, default=0, help="the size of the one sent in chunks")
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    arguments = parser.parse_args()
    connection = client(arguments.url)
    consumer = connection.subscribe(arguments.topic, "sizes")
    sent = {}

    def send(size, **options):
        producer = connection.create_producer(
            arguments.topic, batching_enabled=False, send_timeout_millis=20_000, **options
        )
        payload = os.urandom(size)
        try:
            producer.send(payload)
        except pulsar.MessageTooBig:
            say(refused=size)
        else:
            sent[size] = hashlib.sha256(payload).digest()
            say(sent=size)
        producer.close()

    for size in arguments.sizes:
        send(size)
    if arguments.chunked:
        send(arguments.chunked, chunking_enabled=True)
    for _ in sent:
        message = consumer.receive(timeout_millis=20_000)
        consumer.acknowledge(message)
        data = message.data()
        say(received=len(data), same=hashlib.sha256(data).digest() == sent[len(data)])
    connection.close()


main()
