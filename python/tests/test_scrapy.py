# SPDX-License-Identifier: MIT
"""tamis.scrapy.DupeFilter without a crawl; tests/servers/crawl.py has crawls."""
import logging
import sqlite3

import pytest
import tamis

scrapy = pytest.importorskip("scrapy")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def crawler():
    from scrapy.utils.test import get_crawler

    def make(**settings):
        made = get_crawler(settings_dict={"REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7", **settings})
        made.spider = made._create_spider("tamis")
        return made

    return make


def test_settings_and_fingerprints(crawler, tmp_path):
    from tamis.scrapy import DupeFilter

    made = DupeFilter.from_crawler(crawler(DUPEFILTER_CAPACITY=5000, DUPEFILTER_FPP="1e-4", DUPEFILTER_MAX_BYTES=10**6))
    assert (made.seen.capacity, made.seen.fpp) == (5000, 1e-4)
    request = scrapy.Request
    assert made.request_seen(request("http://a/?x=1&y=2")) is False
    assert made.request_seen(request("http://a/?y=2&x=1#part")) is True  # Scrapy's own form of a URL
    assert made.request_seen(request("http://a/?x=1&y=2", method="POST")) is False
    made.close("finished")
    usual = DupeFilter.from_crawler(crawler())
    assert (usual.seen.capacity, usual.seen.fpp, usual.save_interval) == (1_000_000, 1e-6, 60)


@pytest.mark.parametrize("debug", [False, True])
def test_its_log_line_is_scrapys(crawler, caplog, debug):
    from scrapy.dupefilters import RFPDupeFilter
    from tamis.scrapy import DupeFilter

    lines, counts = [], []
    for kind in RFPDupeFilter, DupeFilter:
        one = crawler(DUPEFILTER_DEBUG=debug)
        made = kind.from_crawler(one)
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            for _ in range(3):
                made.log(scrapy.Request("http://a/"), one.spider)
        lines.append([record.getMessage() for record in caplog.records])
        counts.append(one.stats.get_value("dupefilter/filtered"))
    assert lines[0] == lines[1] and len(lines[0]) == (3 if debug else 1) and counts == [3, 3]


def test_saved_with_the_job(tmp_path):
    from tamis.scrapy import DupeFilter

    made = DupeFilter(str(tmp_path))
    assert not made.request_seen(scrapy.Request("http://a/"))
    made.close("finished")
    again = DupeFilter(str(tmp_path))
    assert again.request_seen(scrapy.Request("http://a/")) and not again.request_seen(scrapy.Request("http://b/"))
    assert "requests.seen.tamis" in {path.name for path in tmp_path.iterdir()}
    (tmp_path / "requests.seen.tamis").write_bytes(b"damaged")
    with pytest.raises(tamis.CorruptError):
        DupeFilter(str(tmp_path))


def test_a_job_that_was_begun_with_scrapys_filter(tmp_path):
    from scrapy.dupefilters import RFPDupeFilter
    from tamis.scrapy import DupeFilter

    before = RFPDupeFilter(str(tmp_path))
    before.request_seen(scrapy.Request("http://a/"))
    before.close("finished")
    made = DupeFilter(str(tmp_path), fingerprinter=before.fingerprinter)
    assert made.request_seen(scrapy.Request("http://a/")) and not made.request_seen(scrapy.Request("http://b/"))


def test_full():
    from tamis.scrapy import DupeFilter

    made = DupeFilter(capacity=100, max_bytes=2000)
    seen = [made.request_seen(scrapy.Request(f"http://a/{i}")) for i in range(2000)]
    assert not any(seen)  # nothing is dropped for want of room


def test_one_crawl_at_a_time(crawler, tmp_path):
    from tamis.scrapy import DupeFilter

    first = DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path)))
    with pytest.raises(RuntimeError, match="another crawl"):
        DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path)))
    first._pending.abandon()
    assert sqlite3.connect(tmp_path / "requests.pending").execute("SELECT count(*) FROM sqlite_master").fetchone()
