# SPDX-License-Identifier: MIT
"""What docs/use/nginx.md shows runs as it stands, and does what it says: each block that is marked with this file, in the
server that TESTS has for it."""
import base64
import hashlib
import pathlib
import re
import shutil

import pytest
from check_documents import marked
from server import same, wait_until

TREE = pathlib.Path(__file__).resolve().parents[2]


def start(context, block):
    """The block, with the folders of the system below that of the server, and with a backend that says which headers
    it has got."""
    nginx = context.nginx()
    here = re.sub(r"/(?:etc|var/lib|var/log)/nginx/", f"{nginx.folder}/", block.text)
    whole = re.search(r"^load_module .*\nevents \{\}\nhttp \{\n(.*?)  server \{\n(.*?)^  \}\n\}$", here, re.M | re.S)
    nginx.http, nginx.server = whole.groups() if whole else re.match(r"((?:tamis_filter.*\n)*)((?s:.*))", here).groups()
    backend = nginx.path("backend")
    nginx.http += (f"upstream backend {{ server unix:{backend}; }}\n"
                   f"server {{ listen unix:{backend}; return 200 '$http_x_first$http_x_token'; }}\n")
    context.build_list(["127.0.0.9"], nginx.path("blocked.tamis"))
    nginx.path("users").write_text("me:{PLAIN}secret\n")
    nginx.path("html").mkdir()
    nginx.path("html/download").write_text("file")
    return nginx.start()


def first_page(context, block):
    nginx = start(context, block)
    same([nginx.get(f"/once?token={token}") for token in "ab"], [(200, "a"), (200, "b")], "new tokens")
    same([nginx.get(path)[0] for path in ("/once?token=a", "/once", "/once?token=")], [410] * 3, "used, or none")
    context.build_list(["127.0.0.1"], nginx.path("blocked.tamis"))
    wait_until(lambda: nginx.get("/once?token=c")[0] == 403, "the list is replaced")


def signed_tokens(context, block):
    """A signature that is spelt in another way is no other token."""
    nginx = start(context, block)

    def link(token, expires=4000000000, uri="/download", secret="SECRET"):
        digest = hashlib.md5(f"{expires} {uri} {token} {secret}".encode()).digest()
        return f"{uri}?id={token}&expires={expires}&md5=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")

    same([nginx.get(link("a"))[0] for _ in range(2)], [200, 410], "a token")
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spelt = link("a")[:-1] + digits[digits.index(link("a")[-1]) | 15]  # bits that no byte has
    same([nginx.get(path)[0] for path in (spelt, link("a") + "==", link("a") + "&id=b")], [410] * 3, "other spellings")
    same([nginx.get(link("b", secret="x"))[0], nginx.get(link("b", expires=1))[0], nginx.get(link("b"))[0]],
         [403, 410, 200], "tokens that are refused are not used up")


def replays(context, block):
    """What auth_basic refuses does not use its key up, as proxy_set_header comes later."""
    nginx = start(context, block)

    def ask(password, nonce):
        who = base64.b64encode(f"me:{password}".encode()).decode()
        return nginx.get("/api", **{"Authorization": f"Basic {who}", "X-Nonce": nonce})

    same([ask("wrong", "1")[0], ask("secret", "1"), ask("secret", "1"), ask("secret", "2")],
         [401, (200, "1"), (200, "0"), (200, "1")], "answers")


def log_once(context, block):
    nginx = start(context, block)
    for visitor in "abacabad":
        nginx.get(f"/?v={visitor}", Cookie=f"id={visitor}")
    nginx.get("/")

    def logged():
        return re.findall(r"GET /\?v=(.) ", nginx.path("visitors.log").read_text())

    wait_until(lambda: len(logged()) == 4, "the log")
    same(sorted(logged()), list("abcd"), "each id once")


def window(context, block):
    nginx = start(context, block)
    same(nginx.path("tokens.tamis").stat().st_size > 10 * 2**20, True, "room for the tokens")


TESTS = {test.__name__: test for test in (first_page, signed_tokens, replays, log_once, window)}


def test_documents(context):
    blocks = marked(TREE, "nginx/tests/test_documents.py")
    same(sorted(block.name for block in blocks), sorted(TESTS), "tests")
    if shutil.disk_usage(context.top).free < 2**31:
        pytest.skip("filters for 100 million keys do not fit")
    for block in blocks:
        TESTS[block.name](context, block)
        context.end()
