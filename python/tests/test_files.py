# SPDX-License-Identifier: MIT
"""Saved filters, mapped filters, and the same file in the hands of the command."""
import grp
import io
import json
import os
import pathlib
import pickle
import stat
import subprocess

import pytest
import tamis

KINDS = [tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom]


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load(kind, tmp_path):
    f = kind(1000, 1e-4, seed=9)
    f.update(range(500))
    for path in tmp_path / "a.tamis", str(tmp_path / "b.tamis"), os.fsencode(tmp_path / "c.tamis"):
        f.save(path)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        g = tamis.load(path)
        assert type(g) is kind and g.mode == "private" and g.path is None and g.seed == 9
        assert all(g.contains_many(range(500))) and g.add("new")
        assert tamis.from_bytes(pathlib.Path(os.fsdecode(path)).read_bytes()).stats().count == f.stats().count


def test_who_may_open_a_file(tmp_path):
    path, own = tmp_path / "f.tamis", os.getgid()
    f = tamis.Bloom(1000)
    for group in own, grp.getgrgid(own).gr_name:
        f.save(path, file_mode=0o640, group=group)
        assert (stat.S_IMODE(os.stat(path).st_mode), os.stat(path).st_gid) == (0o640, own)
    f.save(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    shared = tmp_path / "shared"
    tamis.shared(shared, 1000, file_mode=0o664, group=own).add("a")
    assert "a" in tamis.shared(shared, file_mode=0o600) and stat.S_IMODE(os.stat(shared).st_mode) == 0o664
    for wrong in {"file_mode": 0o400}, {"file_mode": 0o1600}, {"group": own}, {"file_mode": 0o600, "group": "no such group"}:
        for call in f.save, lambda path, **access: tamis.shared(path, 1000, **access):
            with pytest.raises(ValueError, match="file_mode|group"):
                call(tmp_path / "none", **wrong)
    with pytest.raises(TypeError):
        f.save(tmp_path / "none", mode=0o600)
    assert sorted(os.listdir(tmp_path)) == ["f.tamis", "shared"]


def test_mapped(tmp_path):
    path = tmp_path / "f.tamis"
    f = tamis.Bloom(1000, 1e-4)
    f.update(range(500))
    f.save(path)
    for g in tamis.open(path), tamis.open(path, check=True), pickle.loads(pickle.dumps(tamis.open(path))):
        assert (g.mode, g.path, type(g)) == ("mapped", str(path), tamis.Bloom)
        assert all(g.contains_many(range(500)))
        for call in g.add, g.add_copy, lambda key: g.update([key]), lambda key: g.add_many([key]):
            with pytest.raises(io.UnsupportedOperation, match="mapped"):
                call("x")
        with pytest.raises(io.UnsupportedOperation):
            g |= f
        assert "x" not in g and all((g | f).contains_many(range(500)))
    fixed = tamis.Cuckoo(1000, 1e-4, growable=False)
    fixed.add("a"), fixed.save(path)
    assert "a" in tamis.open(path)
    with pytest.raises(io.UnsupportedOperation):
        tamis.open(path).remove("a")
    for cannot in tamis.Cuckoo(1000), tamis.Bloom(1000, window=2):
        cannot.save(path)
        with pytest.raises(io.UnsupportedOperation):
            tamis.open(path)
        assert type(tamis.load(path)) is type(cannot)


def test_relative_paths_are_kept_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tamis.Bloom(100).save("f.tamis")
    f = tamis.open("f.tamis")
    monkeypatch.chdir("/")
    assert f.path == str(tmp_path / "f.tamis") and pickle.loads(pickle.dumps(f)).mode == "mapped"


def test_files_that_are_refused(tmp_path):
    saved = tmp_path / "f.tamis"
    f = tamis.Bloom(1000, 1e-4)
    f.update(range(100))
    f.save(saved)
    data = saved.read_bytes()
    spoilt = bytearray(data)
    spoilt[len(data) // 2] ^= 1
    wrong = [b"", b"x" * 1000, data[:-1], data[:600], data + b"\0", bytes(spoilt)]
    for i, content in enumerate(wrong):
        path = tmp_path / f"wrong {i}"
        path.write_bytes(content)
        with pytest.raises(tamis.CorruptError) as raised:
            tamis.load(path)
        assert str(path) in str(raised.value) and isinstance(raised.value, tamis.Error)
        with pytest.raises(tamis.CorruptError):
            tamis.from_bytes(content)
        with pytest.raises(tamis.CorruptError):
            tamis.open(path, check=True)
    later = bytearray(data)
    later[8] = 200  # the version; the sum of the header does not fit either
    with pytest.raises((tamis.CorruptError, io.UnsupportedOperation)):
        tamis.from_bytes(later)
    with pytest.raises(tamis.FullError):
        tamis.load(saved, max_bytes=100)
    for bad in 0, -1:
        with pytest.raises(ValueError, match="max_bytes"):
            tamis.load(saved, max_bytes=bad)
    assert tamis.load(saved, max_bytes=f.nbytes + 1000)
    missing = tmp_path / "no" / "such"
    for call in tamis.load, tamis.open, f.save:
        with pytest.raises(FileNotFoundError) as raised:
            call(missing)
        assert raised.value.filename == missing and raised.value.errno == 2
        for bad in 5, None, 1.5, object():
            with pytest.raises(TypeError):
                call(bad)
        with pytest.raises(ValueError, match="null"):
            call("a\0b")
    with pytest.raises(IsADirectoryError):
        tamis.load(tmp_path)
    for bad in 1, None, "text":
        with pytest.raises(TypeError):
            tamis.from_bytes(bad)
    assert saved.read_bytes() == data


def test_a_full_disk(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with pytest.raises(OSError):
        tamis.Bloom(10**6).save("/dev/full")


# ---- the same file in other hands ----


def keys_of(n):
    return [f"https://example.org/page/{i}" for i in range(n)]


def test_the_command_reads_what_python_saves_and_the_other_way_round(command, tmp_path):
    path, lines, found = tmp_path / "f.tamis", tmp_path / "lines", tmp_path / "found"
    keys = keys_of(10**6)
    lines.write_text("\n".join(keys) + "\n")
    f = tamis.Bloom(5 * 10**5, 0.01)
    f.update(keys[:5 * 10**5])
    f.save(path)
    with open(found, "w") as out:
        subprocess.run([command, "query", path, lines], stdout=out, check=True)
    answers = f.contains_many(keys)
    assert found.read_text().splitlines() == [key for key, is_in in zip(keys, answers) if is_in]
    some = tmp_path / "some"
    some.write_text("\n".join(keys[:1000]) + "\n")
    subprocess.run([command, "build", some, "-o", path], check=True, capture_output=True)
    made = tamis.open(path)
    assert all(made.contains_many(keys[:1000])) and not all(made.contains_many(keys[1000:2000]))


def test_text():
    """A filter as text is short, and survives JSON; other text is refused."""
    f = tamis.Bloom(10, seed=0)
    f.update(range(10))
    text = json.loads(json.dumps(f.to_text()))
    words = f.stats().bits // 8
    assert len(f.to_bytes()) <= words + 256 and len(text) <= (words + 256) * 4 / 3 + 4 and text.isascii()
    assert tamis.from_text(text) == f == tamis.from_text(text, max_bytes=10**5)
    with pytest.raises(tamis.FullError):
        tamis.from_text(text, max_bytes=10)
    assert tamis.from_text(tamis.Cuckoo(10**5).to_text()) == tamis.Cuckoo(10**5, seed=tamis.Cuckoo(9).seed)
    for bad in "", "A", "====", text[:-4], text + "AAAA", text + "\n", text[:50] + " " + text[50:], text[:50] + "é" + text[50:], "x" * 100:
        with pytest.raises(tamis.CorruptError):
            tamis.from_text(bad)
    for bad in b"abc", None, 5:
        with pytest.raises(TypeError):
            tamis.from_text(bad)
    for i in range(0, len(text), 3):  # whatever has changed
        changed = text[:i] + ("B" if text[i] != "B" else "C") + text[i + 1:]
        with pytest.raises((tamis.Error, io.UnsupportedOperation, ValueError)):
            tamis.from_text(changed)
