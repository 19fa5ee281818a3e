# SPDX-License-Identifier: MIT
import os
from collections.abc import Iterable
from typing import Any, Literal, Optional, SupportsIndex, TypeVar, Union

from ._figures import Similarity, Stats

# A key.  Python before 3.12 has no name for "what exports a buffer".
_Key = Union[str, SupportsIndex, bytes, bytearray, memoryview, Any]
# numpy arrays and Arrow arrays are iterable, too.
_Keys = Iterable[Any]
_Path = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
_Layout = Literal["blocked", "classic", "word"]
_F = TypeVar("_F", bound="Filter")

version: str

class Error(Exception): ...

class FullError(Error):
    results: list[Optional[bool]]

class CorruptError(Error): ...

class Filter:
    @property
    def capacity(self) -> int: ...
    @property
    def fpp(self) -> float: ...
    @property
    def window(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def mode(self) -> Literal["private", "mapped", "shared"]: ...
    @property
    def path(self) -> Union[str, bytes, None]: ...
    def add(self, key: _Key, /) -> bool: ...
    def add_copy(self, key: _Key, /) -> None: ...
    def count(self, key: _Key, /) -> int: ...
    def hash(self, key: _Key, /) -> int: ...
    def update(self, /, *iterables: _Keys) -> None: ...
    def add_many(self, keys: _Keys, /) -> Any: ...  # list[bool], or a numpy array for one
    def contains_many(self, keys: _Keys, /) -> Any: ...
    def save(self, path: _Path, /) -> None: ...
    def to_bytes(self) -> bytes: ...
    def copy(self: _F) -> _F: ...
    def stats(self) -> Stats: ...
    def to_prometheus(self, name: str, /) -> str: ...
    def to_json(self, name: Optional[str] = None, /) -> str: ...
    def __contains__(self, key: _Key, /) -> bool: ...
    def __len__(self) -> int: ...
    def __or__(self: _F, other: _F, /) -> _F: ...
    def __ior__(self: _F, other: _F, /) -> _F: ...
    def __copy__(self: _F) -> _F: ...
    def __deepcopy__(self: _F, memo: Any, /) -> _F: ...

class Bloom(Filter):
    def __new__(
        cls,
        capacity: int,
        fpp: float = 0.01,
        *,
        window: int = 0,
        window_renews: bool = False,
        growable: bool = True,
        max_bytes: Optional[int] = None,
        seed: Optional[int] = None,
        layout: _Layout = "blocked",
    ) -> Bloom: ...
    @classmethod
    def bytes_for(
        cls,
        capacity: int,
        fpp: float = 0.01,
        *,
        window: int = 0,
        window_renews: bool = False,
        growable: bool = True,
        max_bytes: Optional[int] = None,
        seed: Optional[int] = None,
        layout: _Layout = "blocked",
    ) -> int: ...
    def advance(self) -> None: ...
    def advance_to(self, period: int, /) -> None: ...
    def sync(self) -> None: ...
    def similarity(self, other: Bloom, /) -> Similarity: ...
    def __and__(self, other: Bloom, /) -> Bloom: ...

class Cuckoo(Filter):
    def __new__(
        cls,
        capacity: int,
        fpp: float = 0.01,
        *,
        window: int = 0,
        window_renews: bool = False,
        growable: bool = True,
        max_bytes: Optional[int] = None,
        seed: Optional[int] = None,
    ) -> Cuckoo: ...
    @classmethod
    def bytes_for(
        cls,
        capacity: int,
        fpp: float = 0.01,
        *,
        window: int = 0,
        window_renews: bool = False,
        growable: bool = True,
        max_bytes: Optional[int] = None,
        seed: Optional[int] = None,
    ) -> int: ...
    def advance(self) -> None: ...
    def advance_to(self, period: int, /) -> None: ...
    def discard(self, key: _Key, /) -> bool: ...
    def remove(self, key: _Key, /) -> None: ...

class CountingBloom(Filter):
    def __new__(
        cls,
        capacity: int,
        fpp: float = 0.01,
        *,
        growable: bool = True,
        max_bytes: Optional[int] = None,
        seed: Optional[int] = None,
    ) -> CountingBloom: ...
    @classmethod
    def bytes_for(
        cls,
        capacity: int,
        fpp: float = 0.01,
        *,
        growable: bool = True,
        max_bytes: Optional[int] = None,
        seed: Optional[int] = None,
    ) -> int: ...
    def discard(self, key: _Key, /) -> bool: ...
    def remove(self, key: _Key, /) -> None: ...

def load(path: _Path, /, *, max_bytes: Optional[int] = None) -> Any: ...  # Bloom, Cuckoo or CountingBloom
def open(path: _Path, /, *, check: bool = False) -> Any: ...
def shared(
    path: Union[_Path, int, None],
    /,
    capacity: Optional[int] = None,
    fpp: float = 0.01,
    *,
    window: int = 0,
    window_renews: bool = False,
    growable: Optional[bool] = None,
    max_bytes: Optional[int] = None,
    seed: Optional[int] = None,
    layout: _Layout = "blocked",
) -> Bloom: ...
def from_bytes(data: Any, /, *, max_bytes: Optional[int] = None) -> Any: ...
def to_prometheus(filters: dict[str, _F], /) -> str: ...
