"""Publishes lines of JSON: {"payload": str, "properties": {str: str}}, batched unless told otherwise.

Says {"acknowledged": n, "id": [ledger, entry, index]} for each, in the order of its acknowledgement, where n
counts the lines from 0, and {"failed": n, "why": str} for one that could not be sent.
"""

import argparse
import threading

import pulsar
from common import COMPRESSION, client, lines, say


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("--compression", choices=COMPRESSION, default="none")
    parser.add_argument("--batch", type=int, default=100, help="messages of a batch; 1: no batching")
    arguments = parser.parse_args()
    connection = client(arguments.url)
    producer = connection.create_producer(
        arguments.topic,
        compression_type=COMPRESSION[arguments.compression],
        batching_enabled=arguments.batch > 1,
        batching_max_messages=max(arguments.batch, 2),
        # Batches are as large as the test says: it flushes, the clock does not.
        batching_max_publish_delay_ms=60_000,
        block_if_queue_full=True,
    )
    lock = threading.Lock()

    def answered(n):
        def callback(result, message_id):
            with lock:
                if result == pulsar.Result.Ok:
                    place = [message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()]
                    say(acknowledged=n, id=place)
                else:
                    say(failed=n, why=str(result))

        return callback

    for n, line in enumerate(lines()):
        if "flush" in line:
            producer.flush()
            continue
        producer.send_async(
            line["payload"].encode(), answered(n), properties=line.get("properties", {})
        )
        if arguments.batch > 1 and (n + 1) % arguments.batch == 0:
            producer.flush()
    producer.flush()
    producer.close()
    connection.close()


main()
