"""A reader, or a consumer, that does what it is told by lines, and answers each with a line.

{"publish": [str, …], "batch": n}  sends them, in batches of n (1: none): {"published": [[ledger, entry, index], …]}
{"traffic": bool}                  begins or ends publishing numbers, from 0 on, one a millisecond
{"open": PLACE, "inclusive": b, "compacted": b}  a reader that begins there: {"opened": true}
{"subscribe": str, "shared": b}    a consumer, from the earliest: {"subscribed": true}
{"seek": PLACE}                    {"sought": true}
{"next": n}                        the next n messages: {"read": [str, …], "times": [ms, …], "ids": […]}
{"available": null}                {"available": bool}
{"last": null}                     a consumer's last message id: {"last": [ledger, entry, index]}
{"close": null}                    {"closed": true}

PLACE is "earliest", "latest", [ledger, entry, index], or {"time": ms}. What fails says {"error": str}.
"""

import argparse
import threading
import time

import pulsar
from common import client, lines, say


ORDERS = ("publish", "traffic", "open", "subscribe", "seek", "next", "available", "last", "close")


def message_id(place):
    if isinstance(place, str):
        return getattr(pulsar.MessageId, place)
    return pulsar.MessageId(-1, *place)


def numbers(place):
    return [place.ledger_id(), place.entry_id(), place.batch_index()]


class Traffic:
    """Publishes numbers until it is ended."""

    def __init__(self, connection, topic):
        self.producer = connection.create_producer(topic, batching_enabled=False)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        n = 0
        while not self.ended.wait(0.001):
            self.producer.send_async(str(n).encode(), None)
            n += 1

    def end(self):
        self.ended.set()
        self.thread.join()
        self.producer.flush()
        self.producer.close()


class Session:
    def __init__(self, url, topic):
        self.connection = client(url)
        self.topic = topic
        self.reading = None
        self.traffic = None

    def publish(self, texts, batch):
        producer = self.connection.create_producer(
            self.topic,
            batching_enabled=batch > 1,
            batching_max_messages=max(batch, 2),
            batching_max_publish_delay_ms=60_000,
        )
        ids = {}
        for n, text in enumerate(texts):
            # Each batch has a time of its own.
            if n % batch == 0:
                before = int(time.time() * 1000)
                while int(time.time() * 1000) == before:
                    time.sleep(0.0005)
            producer.send_async(
                text.encode(), lambda result, place, n=n: ids.update({n: (result, place)})
            )
            if (n + 1) % batch == 0:
                producer.flush()
        producer.flush()
        producer.close()
        assert all(result == pulsar.Result.Ok for result, _ in ids.values()), ids
        return {"published": [numbers(ids[n][1]) for n in range(len(texts))]}

    def receive(self):
        if isinstance(self.reading, pulsar.Reader):
            return self.reading.read_next(timeout_millis=20_000)
        message = self.reading.receive(timeout_millis=20_000)
        self.reading.acknowledge(message)
        return message

    def do(self, order):
        what = next(name for name in ORDERS if name in order)
        told = order[what]
        if what == "publish":
            return self.publish(told, order.get("batch", 1))
        if what == "traffic":
            if told:
                self.traffic = Traffic(self.connection, self.topic)
            else:
                self.traffic.end()
            return {"traffic": told}
        if what == "open":
            self.reading = self.connection.create_reader(
                self.topic,
                message_id(told),
                start_message_id_inclusive=order.get("inclusive", False),
                is_read_compacted=order.get("compacted", False),
            )
            return {"opened": True}
        if what == "subscribe":
            self.reading = self.connection.subscribe(
                self.topic,
                told,
                consumer_type=(
                    pulsar.ConsumerType.Shared
                    if order.get("shared", False)
                    else pulsar.ConsumerType.Exclusive
                ),
                initial_position=pulsar.InitialPosition.Earliest,
            )
            return {"subscribed": True}
        if what == "seek":
            self.reading.seek(told["time"] if isinstance(told, dict) else message_id(told))
            return {"sought": True}
        if what == "next":
            messages = [self.receive() for _ in range(told)]
            return {
                "read": [message.data().decode() for message in messages],
                "times": [message.publish_timestamp() for message in messages],
                "ids": [numbers(message.message_id()) for message in messages],
            }
        if what == "available":
            return {"available": self.reading.has_message_available()}
        if what == "last":
            return {"last": numbers(self.reading.get_last_message_id())}
        if what == "close":
            self.reading.close()
            return {"closed": True}
        raise ValueError(f"{what} is not done")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("topic")
    arguments = parser.parse_args()
    session = Session(arguments.url, arguments.topic)
    for order in lines():
        try:
            answer = session.do(order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(**answer)
    session.connection.close()


main()
