#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Have I seen this?  Keys are text, bytes or integers."""
import tamis

seen = tamis.Bloom(capacity=1_000_000, fpp=1e-6)
for key in "apple", "pear", "apple", 7, b"pear":
    print(key, "is new" if seen.add(key) else "was seen")
print("apple" in seen, "fig" in seen, len(seen))

seen.update(f"page {i}" for i in range(100_000))
print(seen.contains_many(["page 5", "page -5"]))

seen.save("seen.tamis")  # C, C++, the command tamis and other languages read the file
print("page 5" in tamis.load("seen.tamis"))
# prints: apple is new
# prints: pear is new
# prints: apple was seen
# prints: 7 is new
# prints: b'pear' was seen
# prints: True False 3
# prints: [True, False]
# prints: True
