"""Scrapes /metrics and reads it with Prometheus' own parser, which is strict about the form.

Says {"name": family, "type": …, "unit": …} for each family, then {"sample": name, "labels": {…}, "value": …} for
each sample.
"""

import argparse
import json
import urllib.request

from prometheus_client.openmetrics import parser


def say(**values):
    print(json.dumps(values), flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("url")
    url = arguments.parse_args().url
    with urllib.request.urlopen(url, timeout=20) as answer:
        kind = answer.headers["Content-Type"]
        text = answer.read().decode()
    assert kind.startswith("application/openmetrics-text; version=1.0.0"), kind
    for family in parser.text_string_to_metric_families(text):
        say(name=family.name, type=family.type, unit=family.unit, help=family.documentation)
        for sample in family.samples:
            say(sample=sample.name, labels=sample.labels, value=sample.value)


main()
