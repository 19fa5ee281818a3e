# SPDX-License-Identifier: MIT
"""The filters that are kept in tests/compat/vectors have the answers that other runtimes give: tests/compat/test_vectors.py."""
import hashlib
import json
import pathlib

import pytest
import tamis

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/compat/vectors"
VECTORS = json.loads((FOLDER / "vectors.json").read_text())
KEYS = [bytes.fromhex(key) for key in VECTORS["keys"].split(" ")]


@pytest.mark.parametrize("name", VECTORS["filters"])
def test_vectors(name):
    known = VECTORS["filters"][name]
    f = tamis.load(FOLDER / f"{name}.tamis")
    assert "".join(str(f.count(key)) for key in KEYS) == known["counts"]
    assert f.contains_many(KEYS) == [count != "0" for count in known["counts"]]
    later = KEYS[-VECTORS["later"]:]
    assert "".join(str(int(getattr(f, "add_unique", f.add)(key))) for key in later) == known["new"]
    assert hashlib.sha256(f.to_bytes()).hexdigest() == known["sha256"]
