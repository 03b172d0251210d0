"""What the scripts share: the client, and lines of JSON on both sides."""

import json
import sys

import pulsar

COMPRESSION = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


def client(url):
    """A client that logs only what is wrong; not on standard output, which is for the test."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/stderr")
    return pulsar.Client(url, logger=logger, operation_timeout_seconds=30)


def say(**values):
    """One line for the test."""
    print(json.dumps(values), flush=True)


def lines():
    """What the test sends, until it ends its side."""
    for line in sys.stdin:
        yield json.loads(line)
