"""Subscribes and says each message: {"payload": str, "properties": {…}, "topic": str, "redelivered": n,
"id": [ledger, entry, index]}. Acknowledges each unless told otherwise. Says {"subscribed": true} first.

Ends after --count messages, or when its input ends and nothing has come for --idle seconds.
"""

import argparse
import re
import sys
import threading

import pulsar
from common import client, say


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("topic", help="a topic, or with --pattern a regular expression")
    parser.add_argument("subscription")
    parser.add_argument("--pattern", action="store_true")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--count", type=int)
    parser.add_argument("--idle", type=float, default=1.0)
    parser.add_argument("--no-ack", action="store_true")
    parser.add_argument("--batch-index-ack", action="store_true")
    parser.add_argument(
        "--nack-first", action="store_true", help="each message when it comes for the first time"
    )
    parser.add_argument("--unsubscribe", action="store_true", help="at the end")
    arguments = parser.parse_args()
    connection = client(arguments.url)
    consumer = connection.subscribe(
        re.compile(arguments.topic) if arguments.pattern else arguments.topic,
        arguments.subscription,
        consumer_type=(
            pulsar.ConsumerType.Shared if arguments.shared else pulsar.ConsumerType.Exclusive
        ),
        initial_position=pulsar.InitialPosition.Earliest,
        batch_index_ack_enabled=arguments.batch_index_ack,
        negative_ack_redelivery_delay_ms=200,
    )
    say(subscribed=True)
    ended = threading.Event()

    def watch_input():
        for _ in sys.stdin:
            pass
        ended.set()

    threading.Thread(target=watch_input, daemon=True).start()
    received, idle = 0, 0.0
    while arguments.count is None or received < arguments.count:
        try:
            message = consumer.receive(timeout_millis=250)
        except pulsar.Timeout:
            idle += 0.25
            if ended.is_set() and idle >= arguments.idle:
                break
            continue
        idle = 0.0
        received += 1
        place = message.message_id()
        say(
            payload=message.data().decode(),
            properties=message.properties(),
            topic=message.topic_name(),
            redelivered=message.redelivery_count(),
            id=[place.ledger_id(), place.entry_id(), place.batch_index()],
        )
        if arguments.nack_first and message.redelivery_count() == 0:
            consumer.negative_acknowledge(message)
        elif not arguments.no_ack:
            consumer.acknowledge(message)
    if arguments.unsubscribe:
        consumer.unsubscribe()
    else:
        consumer.close()
    connection.close()


main()
