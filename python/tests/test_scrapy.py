# SPDX-License-Identifier: MIT
"""tamis.scrapy.DupeFilter without a crawl; tests/servers/crawl.py has crawls."""
import logging
import pickle
import resource
import sqlite3
from types import SimpleNamespace as Some

import pytest
import tamis

scrapy = pytest.importorskip("scrapy")
from scrapy import signals  # noqa: E402
from scrapy.dupefilters import RFPDupeFilter  # noqa: E402
from scrapy.utils.test import get_crawler  # noqa: E402
from tamis.scrapy import DupeFilter  # noqa: E402
from twisted.internet import defer, threads  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def crawler():
    def make(**settings):
        made = get_crawler(settings_dict={"REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7", **settings})
        made.spider = made._create_spider("tamis")
        return made

    return make


def test_settings_and_fingerprints(crawler, tmp_path):
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


def test_saved_with_the_job(crawler, tmp_path):
    made = DupeFilter(str(tmp_path))
    assert not made.request_seen(scrapy.Request("http://a/"))
    made.close("finished")
    again = DupeFilter(str(tmp_path))
    assert again.request_seen(scrapy.Request("http://a/")) and not again.request_seen(scrapy.Request("http://b/"))
    assert "requests.seen.tamis" in {path.name for path in tmp_path.iterdir()}
    (tmp_path / "requests.seen.tamis").write_bytes(b"damaged")
    with pytest.raises(tamis.CorruptError):
        DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path)))


def test_a_file_of_scrapys_filter_that_is_no_text(tmp_path):
    """A fingerprinter may give bytes, of any encoding; the last line may be torn."""
    (tmp_path / "requests.seen").write_bytes(b"\xff\xfe\r\n\xe9\x80\nabc\n\xc3")
    made = DupeFilter(str(tmp_path))
    assert all(made.seen.contains_many([b"\xff\xfe", b"\xe9\x80", "abc"])) and "x" not in made.seen


@pytest.mark.parametrize("signature", ["path=None, debug=False, *, fingerprinter=None", "path=None, debug=False"])
def test_derived_from_it_as_from_scrapys(crawler, tmp_path, signature):
    """By constructors that RFPDupeFilter knows: Scrapy calls these, and so does this class."""
    made = {}
    exec(f"""
class Derived(DupeFilter):
    def __init__(self, {signature}):
        super().__init__(path, debug{", fingerprinter=fingerprinter" if "fingerprinter" in signature else ""})
        self.own = []

    def request_fingerprint(self, request):
        self.own.append(request.url)
        return request.url
""", {"DupeFilter": DupeFilter}, made)
    one = crawler(DUPEFILTER_CAPACITY=5000, DUPEFILTER_SAVE_INTERVAL=7, JOBDIR=str(tmp_path))
    f = made["Derived"].from_crawler(one)
    assert type(f) is made["Derived"] and f.seen.capacity == 5000 and f.save_interval == 7 and f.crawler is one
    assert f.request_seen(scrapy.Request("http://a/")) is False and f.own == ["http://a/"] and f._pending is not None
    f._pending.abandon()


def test_opened_before_the_engine_has_a_slot(crawler, tmp_path, caplog):
    one = crawler(JOBDIR=str(tmp_path))
    f = DupeFilter.from_crawler(one)
    f.open()
    assert f.request_seen(scrapy.Request("http://a/")) is False
    with caplog.at_level(logging.WARNING):
        one.signals.send_catch_log(signals.spider_opened, spider=one.spider)
    assert "all are fetched again" in caplog.text and f._pending.base.execute("SELECT count(*) FROM pending").fetchone() == (1,)
    f.close("finished")


def test_a_job_that_was_begun_with_scrapys_filter(tmp_path):
    before = RFPDupeFilter(str(tmp_path))
    before.request_seen(scrapy.Request("http://a/"))
    before.close("finished")
    made = DupeFilter(str(tmp_path), fingerprinter=before.fingerprinter)
    assert made.request_seen(scrapy.Request("http://a/")) and not made.request_seen(scrapy.Request("http://b/"))


def test_full():
    made = DupeFilter(capacity=100, max_bytes=2000)
    seen = [made.request_seen(scrapy.Request(f"http://a/{i}")) for i in range(2000)]
    assert not any(seen)  # nothing is dropped for want of room


def test_one_crawl_at_a_time(crawler, tmp_path):
    first = DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path)))
    with pytest.raises(RuntimeError, match="another crawl"):
        DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path)))
    first._pending.abandon()
    assert sqlite3.connect(tmp_path / "requests.pending").execute("SELECT count(*) FROM sqlite_master").fetchone()


def test_a_disk_that_is_full_at_a_commit(crawler, tmp_path, monkeypatch):
    """The commit undoes the request that the first one has yielded, so that one must stay in the list."""
    monkeypatch.setattr(threads, "deferToThread", defer.maybeDeferred)
    f = DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path), DUPEFILTER_CAPACITY=100))
    f.open()
    first, limits = scrapy.Request("http://a/"), resource.getrlimit(resource.RLIMIT_FSIZE)
    f.request_seen(first)
    f.save_soon()
    f.request_seen(scrapy.Request("http://a/next", body=b"x" * 10**5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    f.save_soon()
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    f._change("done", f.request_fingerprint(first))
    assert f._pending is None
    assert sqlite3.connect(tmp_path / "requests.pending").execute("SELECT count(*) FROM pending").fetchone() == (1,)


def test_a_run_that_cannot_schedule_again_what_was_pending(crawler, tmp_path):
    """The next run can, perhaps with a spider that has the callback again."""
    f = DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path)))
    f._pending.begin()
    f._pending.add("fingerprint", b"no request")
    f._pending.commit()
    f._pending.abandon()
    one = crawler(JOBDIR=str(tmp_path))
    f = DupeFilter.from_crawler(one)
    one.engine = Some(slot=Some(scheduler=Some(next_request=None, enqueue_request=None), remove_request=None))
    with pytest.raises(pickle.UnpicklingError):
        f.open()
    f.close("shutdown")
    again = DupeFilter.from_crawler(crawler(JOBDIR=str(tmp_path)))
    assert again._pending.was_killed and len(list(again._pending.all())) == 1
    again._pending.abandon()
