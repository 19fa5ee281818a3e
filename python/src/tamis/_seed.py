# SPDX-License-Identifier: MIT
"""The seed of filters that are given none: one for the process, so that such filters can be united."""
import hashlib
from multiprocessing.process import current_process

_seed = 0


def process_seed() -> int:
    """A secret, by which all children of this process hash, too.

    multiprocessing has a random secret for each program, and hands it to each child that it starts, whether by fork,
    spawn or forkserver, through a pipe; a fork without it copies it.  Whoever knew it could run code in all of them.
    """
    global _seed
    if not _seed:
        digest = hashlib.blake2b(bytes(current_process().authkey), digest_size=8, person=b"tamis seed").digest()
        _seed = int.from_bytes(digest, "little") or 1
    return _seed
