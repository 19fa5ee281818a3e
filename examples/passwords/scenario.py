#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scenario of examples/passwords: nginx serves a list of passwords as a filter, and a page in Chromium asks it.

    scenario.py --programs DIR [--words N] [--fpp RATE]

DIR has the command `tamis` and the folder `wasm` of the npm package.  Prints a table, and fails if a promise of
README.md is broken.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path[:0] = [str(TREE / "tests/support"), str(HERE)]
sys.dont_write_bytecode = True
import words  # noqa: E402
from loopback import HOST, Process, answers, free_port, supervised, wait_until  # noqa: E402

MIB = 2**20
ASKED = 3000  # known words, and as many others


class Failed(Exception):
    pass


def demand(condition, what):
    if not condition:
        raise Failed(what)


class Browser:
    """A page in Chromium without a window, by the WebDriver protocol of chromedriver."""

    def __init__(self, folder):
        try:
            socket.gethostbyname("localhost")
        except OSError as error:
            raise Failed("chromedriver looks for its browser on localhost, which has no address here: "
                         "/etc/hosts needs the line 127.0.0.1 localhost") from error
        while True:
            port = free_port()
            self.address = f"http://{HOST}:{port}"
            self.driver = Process(["chromedriver", f"--port={port}"], folder, HOME=str(folder), TMPDIR=str(folder)).start()
            if self.driver.wait_for(lambda: answers(port)):
                break
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                            f"--user-data-dir={folder / 'profile'}"]}
        reply = self.post("/session", capabilities={"alwaysMatch": {"goog:chromeOptions": options}})
        self.session = f"/session/{reply['sessionId']}"

    def post(self, path, **body):
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(f"chromedriver: {json.load(error)['value']['message']}") from error

    def open(self, url):
        self.post(f"{self.session}/url", url=url)

    def run(self, script, *arguments):
        return self.post(f"{self.session}/execute/sync", script=script, args=list(arguments))


class Scene:
    def __init__(self, folder, options):
        folder.chmod(0o755)
        self.folder, self.command, self.fpp = folder, options.programs / "tamis", options.fpp
        self.capacity = options.words + options.words // 100  # so that a few more fit
        self.site = folder / "site"
        shutil.copytree(HERE / "page", self.site)
        shutil.copytree(TREE / "js/src", self.site / "tamis/src")
        shutil.copytree(options.programs / "wasm", self.site / "tamis/wasm")
        self.list = self.site / "known.tamis"

    def serve(self):
        while True:
            self.port = free_port()
            config = (HERE / "nginx.conf").read_text().replace("FOLDER", str(self.folder)).replace("PORT", str(self.port))
            (self.folder / "nginx.conf").write_text(config)
            nginx = Process(["nginx", "-p", self.folder, "-c", self.folder / "nginx.conf"], self.folder).start()
            if nginx.wait_for(lambda: answers(self.port)):
                return

    def asked(self):
        """What nginx was asked for: tuples of status, method, address and bytes."""
        return [tuple(line.split("\t")) for line in (self.folder / "asked").read_text().splitlines()]

    def build(self, file):
        """Replaces the list by one of the words in a file.  The classic layout is the smallest."""
        begin = time.monotonic()
        subprocess.run([self.command, "build", "--quiet", "--layout=classic", f"--fpp={self.fpp}", f"--capacity={self.capacity}",
                        "--seed=7", file, "-o", self.list], check=True)
        return time.monotonic() - begin

    def query(self, texts):
        """What the command says of each."""
        out = subprocess.run([self.command, "query", "--quiet", self.list], input="".join(f"{t}\n" for t in texts),
                             stdout=subprocess.PIPE, text=True).stdout
        found = set(out.splitlines())
        return [text in found for text in texts]


ASK = """
const begin = performance.now();
const found = arguments[0].map((word) => known.has(word));
return { found, ms: performance.now() - begin };
"""
TYPE = """
const field = document.getElementById('password');
field.value = arguments[0];
field.dispatchEvent(new Event('input'));
return document.getElementById('answer').textContent;
"""


def state(browser):
    return browser.run("return { ...document.getElementById('state').dataset }")


def check_answers(scene, browser, count):
    """The page says what the command says, asks nobody, and is wrong as rarely as it should be."""
    known = [words.word(i) for i in range(0, count, max(1, count // ASKED))][:ASKED]
    others = list(words.words(count + 10**6, ASKED))
    before = [line for line in scene.asked() if line[2] != "/known.tamis"]
    said = browser.run(ASK, known + others)
    demand(all(said["found"][:len(known)]), "each word of the list is found")
    demand(said["found"] == scene.query(known + others), "the page says what the command says")
    wrong = sum(said["found"][len(known):])
    demand(wrong <= 10 + 3 * ASKED * scene.fpp, f"{wrong} of {ASKED} other words seem to be in the list")
    demand(browser.run(TYPE, known[0]) == "Others know this password. Take another one.", "the page says what it finds")
    demand(browser.run(TYPE, "Not a word of the list") == "Not in the list.", "the page says what it does not find")
    demand([line for line in scene.asked() if line[2] != "/known.tamis"] == before, "no word leaves the page")
    demand(all(method == "GET" and "?" not in address.replace("/?every=0.2", "") for _, method, address, _ in scene.asked()),
           "nothing is sent to the server")
    return said["ms"] * 1000 / len(said["found"]), wrong / ASKED


def check_updates(scene, browser, plain, count):
    """The page takes another list without being asked, keeps its own if that is damaged, and fetches none twice."""
    wait_until(lambda: any(line[:3] == ("304", "GET", "/known.tamis") for line in scene.asked()), "the list is not sent again",
               seconds=30)
    new = "Correct Horse 1"
    demand(browser.run(ASK, [new])["found"] == [False], "the new word is not known yet")
    whole = scene.list.read_bytes()
    damaged = scene.folder / "damaged"
    damaged.write_bytes(whole[:len(whole) // 2])
    os.replace(damaged, scene.list)
    wait_until(lambda: state(browser)["failed"].startswith("CorruptError"), "the page notices that the list is cut off")
    demand(state(browser)["lists"] == "1" and browser.run(ASK, [words.word(5)])["found"] == [True], "the old list stays")
    with open(plain, "a") as out:
        out.write(f"{new}\n")
    scene.build(plain)
    wait_until(lambda: state(browser)["lists"] == "2", "the page takes the new list")
    demand(state(browser)["failed"] == "", "the new list is whole")
    demand(browser.run(ASK, [new, words.word(5)])["found"] == [True, True], "the new list has the new word")
    sent = sum(line[:3] == ("200", "GET", "/known.tamis") for line in scene.asked())
    demand(2 <= sent < 10, f"{sent} lists were sent")


def check_pauses(scene, browser):
    for every in ("", "soon", "0", "9999999"):
        browser.open(f"http://{HOST}:{scene.port}/?every={every}")
        wait_until(lambda: state(browser).get("lists") == "1", "the list is loaded")
        before = len(scene.asked())
        time.sleep(0.3)
        demand(len(scene.asked()) <= before + 1, f"with ?every={every}, the page makes a pause")


def main(folder, options):
    scene, count = Scene(folder, options), options.words
    plain = folder / "words.txt"
    with open(plain, "w") as out:
        subprocess.run([sys.executable, HERE / "words.py", "0", str(count)], stdout=out, check=True)
    seconds = scene.build(plain)
    packed = subprocess.run(["gzip", "-c", plain], stdout=subprocess.PIPE, check=True).stdout
    scene.serve()
    browser = Browser(folder / "browser")
    begin = time.monotonic()
    browser.open(f"http://{HOST}:{scene.port}/?every=0.2")
    wait_until(lambda: state(browser).get("lists") == "1", "the list is loaded")
    loaded = time.monotonic() - begin
    microseconds, wrong = check_answers(scene, browser, count)
    check_updates(scene, browser, plain, count)
    check_pauses(scene, browser)

    print(f"{count} words, fpp {options.fpp}\n")
    print("| | MiB | bytes a word | made in, s |\n|---|--:|--:|--:|")
    for name, size, took in (("plain list", plain.stat().st_size, None), ("plain list, gzip", len(packed), None),
                             ("the filter", scene.list.stat().st_size, seconds)):
        print(f"| {name} | {size / MIB:.1f} | {size / count:.2f} | {'-' if took is None else f'{took:.1f}'} |")
    print(f"\nThe page: loaded in {loaded:.1f} s, {microseconds:.1f} µs a word, "
          f"{100 * wrong:.2f} % of other words seem known")
    return 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--words", type=int, default=10**5)
    parser.add_argument("--fpp", type=float, default=0.001)
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    return options


if __name__ == "__main__":
    given = arguments()
    supervised(lambda folder: main(folder, given))
