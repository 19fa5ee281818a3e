#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Crawls a site: spider.py START_URL JOBDIR.  Its last line is the reason of the end."""
import json
import sys

import scrapy
from scrapy.crawler import CrawlerProcess


class Spider(scrapy.Spider):
    name = "tamis"

    def __init__(self, start):
        self.start_urls = [start]

    def parse(self, response):
        for link in response.css("a::attr(href)"):
            yield response.follow(link, self.parse)

    def closed(self, reason):
        stats = {name: value for name, value in self.crawler.stats.get_stats().items() if name.startswith("dupefilter/")}
        print(json.dumps({"reason": reason, **stats}))


def main(start, jobdir):
    process = CrawlerProcess({
        "DUPEFILTER_CLASS": "tamis.scrapy.DupeFilter", "JOBDIR": jobdir, "DUPEFILTER_SAVE_INTERVAL": 0.3,
        "LOG_LEVEL": "INFO", "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "TELNETCONSOLE_ENABLED": False,
        "REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7"})
    process.crawl(Spider, start)
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
