#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures as text, read again: JSON by Python's parser, Prometheus' format by a strict one, and by that
of Prometheus' own client where it is installed.

    test_stats_text.py LIBRARY
"""
import ctypes
import json
import math
import re
import sys
from ctypes import byref, c_char_p, c_void_p

from library import WRITE, Stats, check, create, load

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

JSON, PROMETHEUS = 1, 2
NAMES = [b"users", b"", b" ", b'a "quoted" one', b"back\\slash", b"\\", b'\\"', b"two\nlines", b"\n",
         b"tab\t return\r bell\x07 escape\x1b delete\x7f", "Zürich 北京 \U0001f600".encode(),
         b'", evil="1"} 1\ntamis_keys{name="x', b"\xff\xfe", b"a\xc3", b"\xc0\xaf", b"\xed\xa0\x80",
         b"\xf5\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xe0\x9f\xbf", "\u2028\ufeff".encode(),
         b"%s%n", b"x" * 10000, b'\\' * 5000, b"\xe4" * 5000]

METRIC = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^\\"\n]|\\\\|\\"|\\n)*"'
HELP = re.compile(rf"# HELP ({METRIC}) ((?:[^\\\n]|\\\\|\\n)+)")
TYPE = re.compile(rf"# TYPE ({METRIC}) (gauge|counter)")
SAMPLE = re.compile(rf"({METRIC})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?|NaN|\+Inf")


def unescape(value):
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def lint(metric, kind, text):
    """What `promtool check metrics` asks of names and help texts."""
    words = metric.split("_")
    check(text[-1] == "." and text.strip() == text, f"the help text of {metric}")
    check(re.fullmatch(r"tamis(_[a-z]+)+", metric), f"the name {metric}")
    check((kind == "counter") == (words[-1] == "total"), f"{metric} is a {kind}")
    check(not set(words) & {"counter", "gauge", "histogram", "summary", "untyped"},
          f"{metric} names its type")
    check(words[-1] not in ("count", "sum", "bucket"), f"{metric} is like a part of a histogram")
    check(not set(words) & {"bits", "kilobytes", "megabytes", "milliseconds", "microseconds",
                            "nanoseconds", "ns", "us", "ms", "percent", "minutes", "hours"},
          f"{metric} is not in base units")


def compare_with_client(page, values, types):
    """The client's parser finds the same."""
    if not text_string_to_metric_families:
        return
    found = {}
    for family in text_string_to_metric_families(page):
        for name, labels, value, *_ in family.samples:
            check(types[name] == family.type and family.documentation, f"the head of {name}")
            found.setdefault(name, {})[tuple(sorted(labels.items()))] = value
    check(repr(sorted(found.items())) == repr(sorted(values.items())),
          "Prometheus' client finds something else")


def parse_page(page):
    """The page as {metric: {labels as a sorted tuple: value}}, and {metric: type}."""
    check(not page or page.endswith("\n"), "the last line has no end")
    values, types, current = {}, {}, None
    lines = page.split("\n")[:-1]
    while lines:
        head = HELP.fullmatch(lines.pop(0))
        check(head and head[1] not in values, f"no HELP, or the second one: {head}")
        current = head[1]
        kind = TYPE.fullmatch(lines.pop(0))
        check(kind and kind[1] == current, f"no TYPE of {current}")
        types[current], values[current] = kind[2], {}
        lint(current, kind[2], head[2])
        while lines and not lines[0].startswith("#"):
            sample = SAMPLE.fullmatch(lines.pop(0))
            check(sample and sample[1] == current, f"no sample of {current}")
            pairs = [re.fullmatch(r'(.*?)="(.*)"', pair, re.S).groups()
                     for pair in re.findall(LABEL, sample[2] or "")]
            labels = tuple(sorted((name, unescape(value)) for name, value in pairs))
            check(len(dict(labels)) == len(labels), "a label stands twice")
            check(labels not in values[current], f"a sample of {current} stands twice: {labels}")
            check(NUMBER.fullmatch(sample[3]), f"no number: {sample[3]}")
            values[current][labels] = float(sample[3])
            check(not {"le", "quantile"} & set(dict(labels)), "a label of histograms")
        check(values[current], f"{current} has no sample")
    compare_with_client(page, values, types)
    return values, types


def no_constant(value):
    check(False, f"JSON has no {value}")


class Texts:
    def __init__(self, library):
        self.library = load(library)

    def create(self, keys, **fields):
        filter_ = create(self.library, **fields)
        for key in range(keys):
            self.library.tamis_add_hash(filter_, key)
        return filter_

    def stats(self, filter_):
        stats = Stats()
        self.library.tamis_stats_init(byref(stats))
        check(self.library.tamis_get_stats(filter_, byref(stats)) == 0, "get_stats")
        return stats

    def text(self, filters, names, format_, many=False):
        parts = []
        write = WRITE(lambda _, data, size: parts.append(ctypes.string_at(data, size)) or 0)
        if many:
            result = self.library.tamis_stats_text_many((c_void_p * len(filters))(*filters),
                                                        (c_char_p * len(names))(*names),
                                                        len(filters), format_, write, None)
        else:
            result = self.library.tamis_stats_text(filters[0], format_, names[0], write, None)
        check(result == 0, f"the text is refused: {result}")
        return b"".join(parts).decode()  # strictly UTF-8


def undisturbed(texts, filters, read):
    """What read() returns while no filter releases memory, as each does some time after it has grown."""
    while True:
        before = [texts.stats(filter_).bytes for filter_ in filters]
        result = read()
        if before == [texts.stats(filter_).bytes for filter_ in filters]:
            return result


def assert_alone(texts, filter_, kind, layout):
    """The texts of one filter have its figures."""
    stats, text, page = undisturbed(texts, [filter_], lambda: (
        texts.stats(filter_), texts.text([filter_], [None], JSON), texts.text([filter_], [None], PROMETHEUS)))
    found = json.loads(text, parse_constant=no_constant)
    assert_same(stats, dict(found), kind, layout)
    assert_page(page, [None], [found])


def assert_same(stats, found, kind, layout):
    """The figures of a filter, and a JSON object of them."""
    bloom_only, cuckoo_only = ({"bits", "bits_set", "bits_per_key", "united_count"},
                               {"joins", "segments", "generations", "fingerprint_bits", "occupancy",
                                "evictions", "failed_searches", "lookup_retries", "longest_growth_ns"})
    fields = {name for name, *_ in Stats._fields_} - {"struct_size", "kind", "layout", "seed"}
    fields -= bloom_only if kind == "cuckoo" else cuckoo_only
    check(found.pop("kind") == kind and found.pop("layout", None) == layout, "kind or layout")
    check(set(found) == fields, f"the members differ: {set(found) ^ fields}")
    for name in fields:
        value = getattr(stats, name)
        check(found[name] == (value if math.isfinite(value) else None), f"{name}: {found[name]}, {value}")


# Where the metric is not "tamis_" and the field, or has another unit.
METRICS = {"count": "keys", "estimated_count": "estimated_keys", "capacity": "capacity_keys",
           "load": "load_ratio", "fpp": "fpp_ratio", "fpp_estimate": "fpp_estimate_ratio",
           "occupancy": "occupancy_ratio", "growths": "growths_total", "joins": "joins_total",
           "refused_adds": "adds_refused_total", "evictions": "evictions_total",
           "failed_searches": "failed_searches_total", "lookup_retries": "lookup_retries_total",
           "longest_growth_ns": "longest_growth_seconds", "bits": "array_bytes",
           "bits_set": "array_set_bytes", "bits_per_key": "hashes_per_key",
           "fingerprint_bits": "fingerprint_bytes", "united_count": "united_keys",
           "oldest_part_age": "oldest_part_age_periods", "period": "period"}


def assert_page(page, names, objects):
    """The page has what the JSON objects have, and nothing else."""
    values, types = parse_page(page)
    expected = {}
    for name, members in zip(names, objects):
        label = () if name is None else (("name", name),)
        info = tuple(sorted(label + tuple((key, members[key]) for key in ("kind", "layout")
                                          if key in members)))
        expected.setdefault("tamis_info", {})[info] = 1
        for field, value in members.items():
            if field not in ("name", "kind", "layout"):
                unit = {"longest_growth_ns": 1e9, "bits": 8, "bits_set": 8, "fingerprint_bits": 8}
                value = math.nan if value is None else value / unit.get(field, 1)
                expected.setdefault("tamis_" + METRICS.get(field, field), {})[label] = value
    check(set(values) == set(expected), f"the metrics differ: {set(values) ^ set(expected)}")
    for metric, samples in expected.items():
        check(set(values[metric]) == set(samples), f"the labels of {metric} differ")
        for label, value in samples.items():
            found = values[metric][label]
            check(found == float(value) or (math.isnan(value) and not math.isfinite(found)),
                  f"{metric} is {found}, not {value}")


def main(library):
    texts = Texts(library)
    shapes = [("bloom", "blocked", dict(kind=1)), ("bloom", "classic", dict(kind=1, layout=1)),
              ("bloom", "word", dict(kind=1, layout=2)), ("cuckoo", None, dict(kind=2)),
              ("cuckoo", None, dict(kind=2, growable=False)), ("counting_bloom", "blocked", dict(kind=3)),
              ("counting_bloom", "blocked", dict(kind=3, growable=False))]
    filters = []
    for kind, layout, fields in shapes:
        for keys in 0, 3000:
            filter_ = texts.create(keys, capacity=1000, fpp=0.01, **fields)
            filters.append(filter_)
            assert_alone(texts, filter_, kind, layout)
    full = texts.create(100000, capacity=1, fpp=0.5, kind=1)
    assert_alone(texts, full, "bloom", "blocked")
    for name in NAMES:
        # Each byte that is not UTF-8 is replaced by itself, which Python does for some sequences.
        expected = re.sub("[\udc80-\udcff]", "\ufffd", name.decode(errors="surrogateescape"))
        text = texts.text([filters[-1]], [name], JSON)
        check(text.count("\n") == 1 and text.endswith("}\n"), "an object is a line")
        found = json.loads(text, parse_constant=no_constant)
        check(found["name"] == expected, f"{found['name']!r}, not {expected!r}")
        assert_page(texts.text([filters[-1]], [name], PROMETHEUS), [expected], [found])
    names = [f"filter {i}".encode() for i in range(len(filters))]
    text, page, all_stats = undisturbed(texts, filters, lambda: (
        texts.text(filters, names, JSON, True), texts.text(filters, names, PROMETHEUS, True),
        [texts.stats(filter_) for filter_ in filters]))
    many = json.loads(text, parse_constant=no_constant)
    check([each["name"] for each in many] == [name.decode() for name in names], "the array")
    for stats, found in zip(all_stats, many):
        kind, layout = found["kind"], found.get("layout")
        assert_same(stats, {k: v for k, v in found.items() if k != "name"}, kind, layout)
    assert_page(page, [name.decode() for name in names], many)
    for filter_ in filters + [full]:
        texts.library.tamis_destroy(filter_)
    print("good")


if __name__ == "__main__":
    main(*sys.argv[1:])
