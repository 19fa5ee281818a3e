# SPDX-License-Identifier: MIT
"""What a C extension can do to the interpreter: leaks, references, subinterpreters, documentation, types."""
import array
import copy
import ctypes
import doctest
import gc
import inspect
import os
import pathlib
import pickle
import pydoc
import shutil
import subprocess
import sys

import pytest
import tamis

HERE = pathlib.Path(__file__).resolve().parent


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks".split()
                + ["fordblks", "keepcost"]]


def allocated():
    """Bytes of malloc that are in use, with the library's; and those of mmap."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Mallinfo
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def figures():
    """The interpreter's cache of attributes keeps names: up to one for each address that a name has had."""
    getattr(sys, "_clear_internal_caches", sys._clear_type_cache)()
    gc.collect()
    return [sys.getallocatedblocks(), allocated(), *(sys.getrefcount(one) for one in (None, True, False, NotImplemented))]


class Broken:
    def __index__(self):
        raise ZeroDivisionError

    __arrow_c_array__ = __index__


class Masked(bytearray):
    def __setmask__(self):
        pass


class Own(tamis.Bloom):
    def __init__(self, *_):
        self.own = []


def raising():
    yield "x"
    raise ZeroDivisionError


def operations(folder):
    f, c, full = tamis.Bloom(1000), tamis.Cuckoo(1000), tamis.Bloom(5, growable=False)
    window, saved, shared = tamis.Bloom(100, window=1), folder / "saved", folder / "shared"
    f.save(saved), full.update([])
    (folder / "text").write_text("no filter")
    tamis.shared(shared, 1000)
    words, numbers = ["a", "b"] * 300, range(600)
    return {
        "add": lambda: (f.add("x"), c.add("x"), c.add_copy("x"), c.discard("x"), "x" in f, f.count("x"), f.hash("x")),
        "remove": lambda: c.remove("absent"), "no key": lambda: f.add(1.5), "large": lambda: f.add(2**64),
        "surrogate": lambda: f.add("\ud800"), "buffer": lambda: f.add(bytearray(b"x")), "broken": lambda: f.add(Broken()),
        "update": lambda: f.update(words, numbers), "add_many": lambda: f.add_many(words),
        "contains_many": lambda: f.contains_many(numbers), "buffers": lambda: f.add_many([bytearray(b"x")] * 300),
        "array": lambda: f.add_many(array.array("q", range(300))), "raises": lambda: f.add_many(raising()),
        "not all keys": lambda: f.add_many(["x", b"y", bytearray(b"z"), 5, 1.5]), "arrow": lambda: f.update(Broken()),
        "one key": lambda: f.update("abc"), "no keys": lambda: f.update(5), "full": lambda: full.add_many(range(100)),
        "create": lambda: (tamis.Bloom(1000), tamis.Cuckoo(1000), tamis.CountingBloom(1000), tamis.Bloom(9, window=2)),
        "capacity": lambda: tamis.Bloom(0), "layout": lambda: tamis.Bloom(9, layout="x"), "number": lambda: tamis.Bloom("x"),
        "options": lambda: tamis.Cuckoo(9, layout="x"), "abstract": lambda: tamis.Filter(),
        "save": lambda: f.to_bytes(), "load": lambda: tamis.load(saved), "open": lambda: tamis.open(saved),
        "shared": lambda: tamis.shared(shared), "other options": lambda: tamis.shared(shared, 99),
        "damaged": lambda: tamis.load(folder / "text"), "no file": lambda: tamis.load("/no/such"),
        "bytes": lambda: tamis.from_bytes(f.to_bytes() + b"x"), "pickle": lambda: pickle.loads(pickle.dumps(f)),
        "copy": lambda: (f.copy(), copy.deepcopy(c)), "union": lambda: (f | f, f.__ior__(f), f | 5),
        "no union": lambda: f | c, "intersection": lambda: full & full, "no intersection": lambda: c & f,
        "unique": lambda: (c.add_unique("y"), c.add_unique_many(words), c.add_many(words), c.update(words), c.discard("y")),
        "itself": lambda: (c.copy().__ior__(c), f.__ior__(f)), "attributes of its own": lambda: Own(9).copy(),
        "masked": lambda: f.add(Masked()), "mask": lambda: f.update(Masked()),
        "restore": lambda: f.__reduce__()[0](tamis.Cuckoo, "bytes", f.to_bytes()),
        "figures": lambda: (f.stats(), f.to_json("x"), f.to_prometheus("x"), tamis.to_prometheus({"x": f}), repr(f), len(f)),
        "no page": lambda: tamis.to_prometheus({"x": 5}), "similarity": lambda: full.similarity(full),
        "attributes": lambda: (f.capacity, f.fpp, f.window, f.seed, f.nbytes, f.mode, f.path), "advance": window.advance,
        "no window": f.advance, "sync": f.sync,
        "periods": lambda: (window.add("x", periods=0), window.update(words, periods=1), window.add_many(words, periods=0)),
        "no periods": lambda: f.add("x", periods=1), "too many": lambda: window.add("x", periods=2**70),
        "a keyword": lambda: window.add("x", key=1), "no number": lambda: window.update(words, periods=1.5),
        "no argument": lambda: window.add(),
    }


def test_nothing_leaks(tmp_path):
    """Counts what is allocated, and the references of what calls return, over many calls of each kind."""
    leaks, calls = {}, 100

    def repeat(call):
        for _ in range(calls):
            try:
                call()
            except (TypeError, ValueError, OverflowError, KeyError, OSError, ZeroDivisionError, tamis.Error):
                pass

    def growth(call):
        before = figures()
        repeat(call)
        return [b - a for a, b in zip(before, figures())]

    def is_leak(grown):
        return max(map(abs, grown[:1] + grown[2:])) > calls // 2 or grown[1] > 100 * calls

    kept = []
    for name, call in {**operations(tmp_path), "a leak": lambda: kept.append(object())}.items():
        repeat(call)
        each = []
        while len(each) < 3 and is_leak(grown := growth(call)):  # a leak grows each time, what is kept once does not
            each.append(grown)
        if len(each) == 3:
            leaks[name] = each
    assert list(leaks) == ["a leak"], "".join(f"{name} leaks: {grown}\n" for name, grown in leaks.items())


def test_references_of_arguments():
    f, key, keys = tamis.Bloom(1000), "x" * 50, ["y" * 50]
    counts = [sys.getrefcount(x) for x in (f, key, keys, keys[0], tamis.Bloom)]
    for _ in range(100):
        f.add(key), key in f, f.update(keys), f.add_many(keys), f.contains_many(keys), f.stats(), f.copy(), f | f
        for bad in 1.5, None:
            for call in f.add, f.update, f.__contains__, tamis.Bloom, f.__or__:
                try:
                    call(bad)
                except (TypeError, ValueError):
                    pass
    del call
    assert [sys.getrefcount(x) for x in (f, key, keys, keys[0], tamis.Bloom)] == counts


def test_development_mode_has_no_complaints(spawned, tmp_path):
    spawned("import sys; sys.path.insert(0, sys.argv[1]); import fuzz; fuzz.exercise(sys.argv[2])", HERE, tmp_path,
            options=["-X", "dev", "-W", "error"], PYTHONMALLOC="debug")


def test_debug_interpreter(tmp_path):
    """Debian's python3-dbg, whose assertions check references and exceptions."""
    python = shutil.which("python3-dbg")
    if python is None or "DEBIAN_PYTHON" in os.environ:
        pytest.skip("python3-dbg is not there")
    if subprocess.run([python, "-c", "import tamis"], capture_output=True).returncode != 0:
        pytest.skip("python3-dbg does not find the package")
    done = subprocess.run([python, "-X", "dev", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import fuzz\n"
                           "for i in range(8): fuzz.exercise(sys.argv[2])", HERE, tmp_path], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_subinterpreters(spawned):
    """Each has types of its own.  What one makes, bytes bring to another one."""
    spawned("""
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import tamis
tamis.Bloom(100).add("main")
for _ in range(5):
    one = interpreters.create()
    error = interpreters.run_string(one, '''
import tamis
f = tamis.Cuckoo(1000)
assert f.add("a") and not f.add("a") and "b" not in f
try:
    tamis.Bloom(0)
except ValueError:
    pass
try:
    tamis.from_bytes(b"")
except tamis.CorruptError:
    pass
assert tamis.from_bytes(f.to_bytes()).stats().count == 2
''')
    assert error is None, error
    interpreters.destroy(one)
tamis.Bloom(100).add("main")
""")


def test_what_the_module_says_to_each_version():
    """Slots that a version does not know keep it from importing; 3.12 and 3.13 ask for one each.  The version that
    runs is made another one, for the module alone."""
    done = subprocess.run([sys.executable, "-c", """
import ctypes, sys, mmap
import tamis._tamis as module

class Definition(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p * 5), ("name", ctypes.c_char_p), ("doc", ctypes.c_char_p),
                ("size", ctypes.c_ssize_t), ("methods", ctypes.c_void_p), ("slots", ctypes.POINTER(ctypes.c_ssize_t))]

version = ctypes.c_ulong.in_dll(ctypes.pythonapi, "Py_Version")
page, libc = ctypes.addressof(version) // mmap.PAGESIZE * mmap.PAGESIZE, ctypes.CDLL(None)
assert libc.mprotect(ctypes.c_void_p(page), 2 * mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
begin = ctypes.CDLL(module.__file__).PyInit__tamis
begin.restype = ctypes.POINTER(Definition)
for number in 0x030b00f0, 0x030c00f0, 0x030d00f0, 0x030e00f0:
    version.value = number
    slots = begin()[0].slots
    row = [(slots[i], slots[i + 1]) for i in range(0, 8, 2)]
    end = [slot for slot, _ in row].index(0)
    print({slot: value for slot, value in row[:end] if slot > 2}, [slot for slot, _ in row[:end]].count(2))
"""], text=True, capture_output=True)
    known = ["{} 1", "{3: 2} 1", "{4: 1, 3: 2} 1", "{4: 1, 3: 2} 1"]  # Py_mod_multiple_interpreters, Py_mod_gil
    assert done.stdout.splitlines() == known, done.stderr


def test_import_again(spawned):
    spawned("""
import sys, tamis
old = tamis.Bloom(100)
for name in [name for name in sys.modules if name.startswith("tamis")]:
    del sys.modules[name]
import tamis
new = tamis.Bloom(100)
assert type(old) is not type(new) and old.add("x") and new.add("x")
try:
    old | new
except TypeError:
    pass
del old
""")


def test_examples_in_docstrings():
    failed = tried = 0
    objects = [tamis, tamis.Ticker, tamis.Once, tamis.load, tamis.open, tamis.shared]
    objects += [member for kind in (tamis.Filter, tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom)
                for member in (kind, *vars(kind).values())]
    for thing in objects:
        text = getattr(thing, "__doc__", None)
        if isinstance(text, str) and ">>>" in text:
            test = doctest.DocTestParser().get_doctest(text, {}, getattr(thing, "__name__", "tamis"), None, 0)
            result = doctest.DocTestRunner().run(test)
            failed, tried = failed + result.failed, tried + result.attempted
    assert failed == 0 and tried > 20


def test_pydoc_shows_all():
    text = pydoc.plain(pydoc.render_doc(tamis.Bloom))
    for words in "add(self, key, /, *, periods=None)", "contains_many(self, keys, /)", "capacity", "false-positive", "update":
        assert words in text
    for kind in tamis.Filter, tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom:
        for name, member in vars(kind).items():
            if not name.startswith("_"):
                assert inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"
    for name in tamis.__all__:
        assert inspect.getdoc(getattr(tamis, name)), name
    signature = inspect.signature(tamis.Bloom.add_many)
    assert str(signature) == "(self, keys, /, *, periods=None)"


@pytest.fixture
def mypy(tmp_path):
    """Runs a program of mypy, that of this interpreter, with the package's stubs, wherever they are installed."""
    pytest.importorskip("mypy")
    (tmp_path / "stubs").mkdir()
    (tmp_path / "stubs/tamis").symlink_to(pathlib.Path(tamis.__file__).parent)
    return lambda *command: subprocess.run(
        [sys.executable, "-m", *command], text=True, capture_output=True, cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path / "stubs"),
             "PYTHONPATH": str(tmp_path / "stubs") + os.pathsep + os.environ.get("PYTHONPATH", "")})


def test_stubs_say_what_the_module_has(mypy):
    """mypy's stubtest compares them."""
    done = mypy("mypy.stubtest", "tamis._tamis", "--ignore-missing-stub")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


TYPED = """
import tamis
f = tamis.Bloom(capacity=1000, fpp=1e-6, window=3)
new: bool = f.add("x") and f.add(b"x") and f.add(5)
count: int = f.stats().count + len(f)
f.update(["a"], (str(i) for i in range(5)))
with tamis.Ticker(f, seconds=300), tamis.Once("path", 1000, remember=5.0) as once, once.claim("id") as first:
    done: bool = first
c = tamis.Cuckoo(1000)
c.remove("x")
f.update([bytearray(b"x"), memoryview(b"y"), 5, array.array("q", [5])])
f.remove("x")
f.add(1.5)
f.add(None)
f.add(["x"])
f.add(object())
1.5 in f or c.discard(None)
f.update([1.5])
f.contains_many([None])
tamis.contains_each([f], 1.5)
once.claim(None)
"""
MISTAKES = 11


def test_a_typed_program(mypy, tmp_path):
    (tmp_path / "program.py").write_text("import array\n" + TYPED)
    done = mypy("mypy", "--strict", "program.py")
    wrong = [line for line in done.stdout.splitlines() if line.startswith("program.py") and "error:" in line]
    first = TYPED.splitlines().index('f.remove("x")') + 2
    assert len(wrong) == MISTAKES and all(int(line.split(":")[1]) >= first for line in wrong), done.stdout + done.stderr
    assert '"Bloom" has no attribute "remove"' in wrong[0]
    assert not [line for line in done.stdout.splitlines() if "/_once.py" in line or "/_ticker.py" in line], done.stdout
