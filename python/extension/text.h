/* SPDX-License-Identifier: MIT
 *
 * The docstrings, which help() and pydoc show.  Their examples are run by python/tests/test_interpreter.py.
 * A first line with "--" below it is the signature, for inspect.signature().
 */
#ifndef TAMIS_PYTHON_TEXT_H
#define TAMIS_PYTHON_TEXT_H

#define MODULE_TEXT "The part of the package tamis that is written in C.  Import tamis instead."

/* ---- of exceptions ---- */

#define DO_NOT_FIT_TEXT \
  "the filters do not fit together: create them with the same options and seed"

#define ONE_LAYER_TEXT                                                                         \
  "only Bloom filters that have not grown and have no window can be intersected or compared; " \
  "growable=False keeps a filter from growing"

#define NO_WINDOW_TEXT "the filter has no window: create it with window=PERIODS"

/* ---- what all constructors take ---- */

#define KEY_TEXT                                                                                \
  "A key is a str (as UTF-8), an int (as 8 bytes), bytes, or another contiguous buffer;\n"      \
  "equal numbers are one key.  TypeError: the key is something else.  OverflowError: an int\n"  \
  "is not from -2**63 to 2**64 - 1.  UnicodeEncodeError: a str has surrogates.  BufferError:\n" \
  "a buffer is not contiguous.\n"

#define OPTIONS_TEXT                                                                            \
  "capacity   distinct keys expected, at least 1\n"                                             \
  "fpp        the probability of a wrong \"yes\" with capacity keys in, above 0 and below 1\n"  \
  "growable   True: the filter takes keys past its capacity, and keeps its rate (except a\n"    \
  "           CountingBloom).\n"                                                                \
  "           False: the add of a key that finds no room raises FullError\n"                    \
  "max_bytes  the filter never takes more memory than this; None: no limit\n"                   \
  "seed       1 to 2**64 - 1; None: the random secret of this program, which forked children\n" \
  "           and children of multiprocessing also have, so that filters can be united;\n"      \
  "           0: a random seed for this filter alone.  Use 0 if others will see the bytes of\n" \
  "           the filter, because the bytes contain the seed\n"

#define WINDOW_OPTIONS_TEXT                                                                      \
  "window     the number of periods, at most 64, for which a key is remembered after its last\n" \
  "           add; 0: for ever.  advance(), or a Ticker, ends a period\n"                        \
  "window_renews  whether an add of a key that is in renews its time\n"

#define PERIODS_TEXT                                                                              \
  "periods: in a filter with a window, the key is remembered for this number of further\n"        \
  "periods, from 0 to the window; None: for the whole window.  If the key has another end, the\n" \
  "later end holds; but a key that is in keeps its end, unless the call adds a copy or the\n"     \
  "filter has window_renews.  ValueError: periods is above the window, or there is no window.\n\n"

#define THREADS_TEXT "All methods may be called by any number of threads at once.\n"

#define REFUSED_TEXT \
  "ValueError says which option is refused, and what is allowed.  MemoryError: no memory.\n"

/* ---- Filter ---- */

#define FILTER_TEXT                                                                                \
  "The base class of Bloom, Cuckoo and CountingBloom.\n\n"                                         \
  "A filter is like a set that does not store its keys.  If \"key in f\" is False, it is always\n" \
  "right; if it is True, it is wrong with a small probability that you choose.\n" THREADS_TEXT     \
  "\n"                                                                                             \
  "len(f) is the number of adds that returned True, plus an estimate of the keys from unions,\n"   \
  "minus forgotten keys; for a Cuckoo and a CountingBloom it is the number of copies.\n"           \
  "f |= g adds all keys of g, which must have the same options and seed, and f | g is a new\n"     \
  "filter.\n"                                                                                      \
  "f == g compares options and bits.  The bits of a Cuckoo, a window, or a Bloom that has grown\n" \
  "depend not only on the keys, but also on the order of adds.  As filters change, they have no\n" \
  "hash(); use id(f) as the key of a dict."

#define UNION_TEXT                                                                               \
  "union($self, /, *others)\n"                                                                   \
  "--\n\n"                                                                                       \
  "Return a new private filter with all keys of this filter and the others, which are filters\n" \
  "with the same options and seed, or what update takes."

#define INTERSECTION_TEXT                                                                          \
  "intersection($self, /, *others)\n"                                                              \
  "--\n\n"                                                                                         \
  "Return a new filter with the keys that this filter and all others have.  others are filters\n"  \
  "with the same options and seed, or what update takes.  ValueError: one of them does not fit,\n" \
  "has grown, or has a window.\n\n"                                                                \
  ">>> import tamis\n"                                                                             \
  ">>> a, b = tamis.Bloom(1000, 1e-6), tamis.Bloom(1000, 1e-6)\n"                                  \
  ">>> a.update([1, 2]), b.update([2, 3])\n"                                                       \
  "(None, None)\n"                                                                                 \
  ">>> [key in a & b for key in (1, 2, 3)], a | b == b | a, a & b <= a\n"                          \
  "([False, True, False], True, True)"

#define INTERSECTION_UPDATE_TEXT                                                                  \
  "intersection_update($self, /, *others)\n"                                                      \
  "--\n\n"                                                                                        \
  "Keep only the keys that intersection would find.  Keys that other threads add meanwhile are\n" \
  "lost.  io.UnsupportedOperation: the filter is shared or mapped."

#define IS_SUBSET_TEXT                                                                         \
  "issubset($self, other, /)\n"                                                                \
  "--\n\n"                                                                                     \
  "Return whether other has all bits of this filter, and so finds all keys that this filter\n" \
  "finds: f <= other.  other is a filter with the same options and seed, or what update takes."

#define IS_SUPERSET_TEXT                                                                          \
  "issuperset($self, other, /)\n"                                                                 \
  "--\n\n"                                                                                        \
  "Return whether this filter has all bits of the filter other, or may have each key of other,\n" \
  "if other is what update takes."

#define IS_DISJOINT_TEXT                                                                          \
  "isdisjoint($self, other, /)\n"                                                                 \
  "--\n\n"                                                                                        \
  "Return True if certainly no key is in both.  For two Bloom filters, the result is True if\n"   \
  "no bit is set in both, which happens only while they are nearly empty; similarity estimates\n" \
  "how many keys are in both."

#define CLEAR_TEXT                                                                                 \
  "clear($self, /)\n"                                                                              \
  "--\n\n"                                                                                         \
  "Forget all keys, and release the memory of growth.  Options and seed stay, but a loaded copy\n" \
  "of a shared Cuckoo becomes an ordinary Cuckoo.  Keys that other threads add meanwhile may be\n" \
  "lost.  io.UnsupportedOperation: the filter is shared or mapped."

#define ADD_TEXT                                                                                   \
  "add($self, key, /, *, periods=None)\n"                                                          \
  "--\n\n"                                                                                         \
  "Add a key, and return True if it was new.\n\n"                                                  \
  "If several threads, or processes that share the filter, add the same new key, exactly one of\n" \
  "them gets True.  (None does if the key is a false positive.)\n\n"                               \
  "A Cuckoo and a CountingBloom count: each add stores one more copy, even if the key is in, so\n" \
  "that a later discard or remove takes away no other key.  A key that was added twice is in\n"    \
  "until it is removed twice.\n\n" PERIODS_TEXT KEY_TEXT                                           \
  "FullError: a limit of the filter is reached.  MemoryError: the filter cannot grow.  After an\n" \
  "exception nothing has changed.\n\n"                                                             \
  ">>> import tamis\n"                                                                             \
  ">>> f = tamis.Bloom(1000)\n"                                                                    \
  ">>> f.add(\"apple\"), f.add(\"apple\")\n"                                                       \
  "(True, False)\n"                                                                                \
  ">>> sessions = tamis.Bloom(1000, 1e-6, window=60)  # periods of a minute\n"                     \
  ">>> sessions.add(\"guest\", periods=5), sessions.add(\"member\", periods=30)\n"                 \
  "(True, True)\n"                                                                                 \
  ">>> for minute in range(6):\n"                                                                  \
  "...     sessions.advance()\n"                                                                   \
  ">>> \"guest\" in sessions, \"member\" in sessions\n"                                            \
  "(False, True)"

#define ADD_COPY_TEXT                                                                           \
  "add_copy($self, key, /, *, periods=None)\n"                                                  \
  "--\n\n"                                                                                      \
  "Add a key, even if it is in: like add, but without an answer.\n\n"                           \
  "A Cuckoo and a CountingBloom then have one more copy of the key (see count), and a window\n" \
  "restarts the key's time.  periods and exceptions are those of add.\n\n"                      \
  ">>> import tamis\n"                                                                          \
  ">>> f = tamis.Cuckoo(1000)\n"                                                                \
  ">>> for _ in range(3):\n"                                                                    \
  "...     f.add_copy(\"apple\")\n"                                                             \
  ">>> f.count(\"apple\")\n"                                                                    \
  "3"

#define ADD_UNIQUE_TEXT                                                                          \
  "add_unique($self, key, /, *, periods=None)\n"                                                 \
  "--\n\n"                                                                                       \
  "Add a key only if it is not in, and return whether it was added.\n\n"                         \
  "Use this for filters from which nothing is removed.  A false positive is not stored, so if\n" \
  "you discarded it later, the filter would forget another key."

#define ADD_UNIQUE_MANY_TEXT                           \
  "add_unique_many($self, keys, /, *, periods=None)\n" \
  "--\n\n"                                             \
  "Call add_unique for each of the keys.  Keys, results and exceptions are those of add_many."

#define COUNT_TEXT                                                                \
  "count($self, key, /)\n"                                                        \
  "--\n\n"                                                                        \
  "Return how many copies of a key are in; the number is never too low, except\n" \
  "that a CountingBloom returns 15 for 15 or more.  A Bloom filter returns 1 or 0."

#define HASH_TEXT                                                                                 \
  "hash($self, key, /)\n"                                                                         \
  "--\n\n"                                                                                        \
  "Return the 64-bit hash of a key under the filter's seed.  Filters with the same seed return\n" \
  "the same hash, in all programs and on all machines."

#define UPDATE_TEXT                                                                                \
  "update($self, /, *iterables, periods=None)\n"                                                   \
  "--\n\n"                                                                                         \
  "Add all keys of iterables: lists, generators, numpy arrays of S, U or integers, Arrow\n"        \
  "arrays (pyarrow 14 or later).\n\n"                                                              \
  "Rows of a two-dimensional array of bytes (uint8) are keys, too, and so are elements of V.\n"    \
  "Use one of these for digests, because numpy drops the zeros at the end of S.\n\n"               \
  "Other threads run meanwhile.  Keys are taken in parts.  If something is no key, or an\n"        \
  "iterable raises, the keys before it are in, and the exception reaches the caller.  (Of an\n"    \
  "array, nothing is added then.)  Ctrl-C ends the call between two parts.  FullError is raised\n" \
  "after all keys of a part, or of an array, have been tried.\n"                                   \
  "A single str or bytes is no iterable of keys, and raises TypeError.\n\n"                        \
  ">>> import tamis\n"                                                                             \
  ">>> f = tamis.Bloom(1000)\n"                                                                    \
  ">>> f.update([\"apple\", \"pear\"], (n * n for n in range(10)))\n"                              \
  ">>> \"pear\" in f and 81 in f\n"                                                                \
  "True"

#define ADD_MANY_TEXT                                                                             \
  "add_many($self, keys, /, *, periods=None)\n"                                                   \
  "--\n\n"                                                                                        \
  "Add keys, and return for each key whether it was new, as add does.\n\n"                        \
  "The result is a numpy array of bools if keys is a numpy array, and otherwise a list.  keys\n"  \
  "and exceptions are those of update.  An exception gets the attribute results, unless it has\n" \
  "one: a list for the keys that were tried, with None for each key that was refused.\n\n"        \
  ">>> import tamis\n"                                                                            \
  ">>> tamis.Bloom(1000).add_many([\"apple\", \"pear\", \"apple\"])\n"                            \
  "[True, True, False]"

#define CONTAINS_MANY_TEXT                                                                      \
  "contains_many($self, keys, /)\n"                                                             \
  "--\n\n"                                                                                      \
  "Return for each key whether it is in, as a numpy array of bools if keys is a numpy array,\n" \
  "and otherwise as a list.  keys are those of update.\n\n"                                     \
  ">>> import tamis\n"                                                                          \
  ">>> f = tamis.Bloom(1000, 1e-9)\n"                                                           \
  ">>> f.add(7)\n"                                                                              \
  "True\n"                                                                                      \
  ">>> f.contains_many([7, 8])\n"                                                               \
  "[True, False]"

#define ACCESS_TEXT                                                                           \
  "file_mode  permission bits of the new file, such as 0o640; None: 0o600, because whoever\n" \
  "           reads the file learns the seed\n"                                               \
  "group      the group of the new file, by name or number; needs file_mode\n"

#define SAVE_TEXT                                                                                \
  "save($self, path, /, *, file_mode=None, group=None)\n"                                        \
  "--\n\n"                                                                                       \
  "Save the filter to a file, which load, open, the command tamis, and C can read.\n\n"          \
  "Other threads may use the filter meanwhile.  Keys whose add has returned before the save\n"   \
  "are in the file.  The old file is replaced only when the new one is complete and on the\n"    \
  "disk.  OSError says what failed; the old file then stays (unless only the folder could not\n" \
  "be synchronised).\n\n" ACCESS_TEXT

#define TO_BYTES_TEXT    \
  "to_bytes($self, /)\n" \
  "--\n\n"               \
  "Return the contents of the file that save would write; from_bytes reads them."

#define TO_TEXT_TEXT                                                                               \
  "to_text($self, /)\n"                                                                            \
  "--\n\n"                                                                                         \
  "Return the contents of the file that save would write as a str in base64, for JSON, a cookie\n" \
  "or an environment variable; from_text reads it.  Strangers who see the text learn the seed,\n"  \
  "so create the filter with seed=0.\n\n"                                                          \
  ">>> import json, tamis\n"                                                                       \
  ">>> f = tamis.Bloom(10, seed=0)\n"                                                              \
  ">>> f.add(\"apple\")\n"                                                                         \
  "True\n"                                                                                         \
  ">>> document = json.dumps({\"seen\": f.to_text()})\n"                                           \
  ">>> \"apple\" in tamis.from_text(json.loads(document)[\"seen\"], max_bytes=10000)\n"            \
  "True"

#define COPY_TEXT                                                                                \
  "copy($self, /)\n"                                                                             \
  "--\n\n"                                                                                       \
  "Return a copy of a private filter.  A filter that is shared or mapped is opened once more,\n" \
  "so changes of one object are seen by the other."

#define REDUCE_TEXT                                                                             \
  "For pickle: transfers the bytes of a private filter, and the path of one that is shared or " \
  "mapped."

#define STATS_TEXT    \
  "stats($self, /)\n" \
  "--\n\n"            \
  "Return the figures of the filter as a tamis.Stats."

#define TO_PROMETHEUS_TEXT                                                                        \
  "to_prometheus($self, name, /)\n"                                                               \
  "--\n\n"                                                                                        \
  "Return the figures in Prometheus' text format, with the label name.  For several filters on\n" \
  "one page, use tamis.to_prometheus."

#define TO_JSON_TEXT               \
  "to_json($self, name=None, /)\n" \
  "--\n\n"                         \
  "Return the figures as a JSON object."

/* ---- the kinds ---- */

#define BLOOM_TEXT                                                                                 \
  "Bloom(capacity, fpp=0.01, *, window=0, window_renews=False, growable=True, max_bytes=None,\n"   \
  "      seed=None, layout='blocked')\n--\n\n"                                                     \
  "A Bloom filter: the fewest bits for each key; keys cannot be removed.\n\n" OPTIONS_TEXT         \
      WINDOW_OPTIONS_TEXT "layout     'blocked'; 'classic' takes fewer bits, and 'word' more and " \
  "is faster\n\n" REFUSED_TEXT "f & g is a new filter with the keys that both have, of filters "   \
  "that have not grown.\n" THREADS_TEXT "\n>>> import tamis\n"                                     \
  ">>> seen = tamis.Bloom(capacity=1000, fpp=1e-6)\n"                                              \
  ">>> seen.add(\"apple\")\n"                                                                      \
  "True\n"                                                                                         \
  ">>> \"apple\" in seen, \"pear\" in seen, len(seen)\n"                                           \
  "(True, False, 1)"

#define CUCKOO_TEXT                                                                               \
  "Cuckoo(capacity, fpp=0.01, *, window=0, window_renews=False, growable=True, max_bytes=None,\n" \
  "       seed=None)\n--\n\n"                                                                     \
  "A cuckoo filter: keys can be removed, and it grows in small steps.\n\n" OPTIONS_TEXT           \
      WINDOW_OPTIONS_TEXT "\n" REFUSED_TEXT THREADS_TEXT "\n>>> import tamis\n"                   \
  ">>> sessions = tamis.Cuckoo(capacity=1000, fpp=1e-6)\n"                                        \
  ">>> sessions.add(\"alice\")\n"                                                                 \
  "True\n"                                                                                        \
  ">>> sessions.remove(\"alice\")\n"                                                              \
  ">>> \"alice\" in sessions\n"                                                                   \
  "False"

#define COUNTING_TEXT                                                                      \
  "CountingBloom(capacity, fpp=0.01, *, growable=True, max_bytes=None, seed=None)\n--\n\n" \
  "A Bloom filter with a counter of four bits in place of each bit, so that keys can be\n" \
  "removed.  A Cuckoo takes a fraction of its memory, and is nearly always the better "    \
  "choice.\n\n" OPTIONS_TEXT "\n" REFUSED_TEXT THREADS_TEXT

#define BYTES_FOR_TEXT                                                                           \
  "Return the bytes of memory that a filter with these options takes; the arguments are those\n" \
  "of the constructor.  Nothing is allocated."

#define DISCARD_TEXT                                                                            \
  "discard($self, key, /)\n"                                                                    \
  "--\n\n"                                                                                      \
  "Remove one copy of a key, and return whether there was one.\n\n"                             \
  "Remove a key only as often as add, update or add_many have added it.  Otherwise, with the\n" \
  "false-positive probability, the filter takes the key for another key, and forgets that one."

#define REMOVE_TEXT                                                                             \
  "remove($self, key, /)\n"                                                                     \
  "--\n\n"                                                                                      \
  "Remove one copy of a key; KeyError if there is none.  discard says which keys must not be\n" \
  "removed."

#define ADVANCE_TEXT                                                                            \
  "advance($self, /)\n"                                                                         \
  "--\n\n"                                                                                      \
  "End a period of a filter with a window: the filter forgets the keys whose last add was in\n" \
  "the oldest period that it remembers, and keys whose periods= are over.\n\n"                  \
  ">>> import tamis\n"                                                                          \
  ">>> f = tamis.Bloom(1000, window=1)\n"                                                       \
  ">>> f.add(\"apple\")\n"                                                                      \
  "True\n"                                                                                      \
  ">>> f.advance()\n"                                                                           \
  ">>> \"apple\" in f\n"                                                                        \
  "True\n"                                                                                      \
  ">>> f.advance()\n"                                                                           \
  ">>> \"apple\" in f\n"                                                                        \
  "False"

#define ADVANCE_TO_TEXT                                                                          \
  "advance_to($self, period, /)\n"                                                               \
  "--\n\n"                                                                                       \
  "End periods until the period with this number (0 to 2**36 - 1) runs.  If it runs or has\n"    \
  "ended, do nothing.\n\n"                                                                       \
  "If processes share a filter and use one clock, each calls this with time.time() // SECONDS\n" \
  "as an int, and the first one ends the period.  A new filter is in period 0, so call\n"        \
  "advance_to before the first add; otherwise the next advance_to may forget the key.\n\n"       \
  ">>> import tamis\n"                                                                           \
  ">>> f = tamis.Bloom(1000, window=1)\n"                                                        \
  ">>> f.advance_to(5)\n"                                                                        \
  ">>> f.add(\"apple\")\n"                                                                       \
  "True\n"                                                                                       \
  ">>> f.advance_to(6), f.advance_to(6), \"apple\" in f\n"                                       \
  "(None, None, True)"

#define SET_PERIOD_TEXT                                                                           \
  "set_period($self, period, /)\n"                                                                \
  "--\n\n"                                                                                        \
  "Give the running period another number; each key keeps its age.\n\n"                           \
  "Use this after a wrong clock has moved the number far ahead (see stats().period): until the\n" \
  "right clock reaches the number, advance_to ends no period."

#define SYNC_TEXT                                                                            \
  "sync($self, /)\n"                                                                         \
  "--\n\n"                                                                                   \
  "Return when all keys that were added before to this shared filter are on the disk, and\n" \
  "survive a power failure.  ValueError: the filter is not shared.  OSError: the disk failed."

#define SIMILARITY_TEXT                                                                           \
  "similarity($self, other, /)\n"                                                                 \
  "--\n\n"                                                                                        \
  "Estimate how much two Bloom filters have in common, as a tamis.Similarity.  ValueError: the\n" \
  "filters have other options or another seed, have grown, or have a window."

/* ---- the module ---- */

#define ERROR_TEXT "The base class of FullError and CorruptError."
#define FULL_TEXT                                                                            \
  "A limit of a filter is reached, such as max_bytes, or the capacity of one that does not " \
  "grow.\n"                                                                                  \
  "After add_many, the attribute results has True, False, or None (refused) for each key."
#define CORRUPT_TEXT "The data that was read is not a complete saved filter."

#define LOAD_TEXT                                                                                  \
  "load($module, path, /, *, max_bytes=None)\n"                                                    \
  "--\n\n"                                                                                         \
  "Load a filter that save, the command tamis, or a program in another language has saved.\n\n"    \
  "The whole file is checked.  Set max_bytes for a file that you do not trust: the filter never\n" \
  "takes more memory.  OSError (FileNotFoundError, ...): the file cannot be read.\n"               \
  "CorruptError: the file holds no filter, or is damaged.  FullError: the filter would exceed\n"   \
  "max_bytes.  io.UnsupportedOperation: the file needs a later version of the library."

#define OPEN_TEXT                                                                                 \
  "open($module, path, /, *, check=False)\n"                                                      \
  "--\n\n"                                                                                        \
  "Map a saved filter for look-ups, at once and in memory that all processes share.\n\n"          \
  "Nothing can be added to the filter (io.UnsupportedOperation).  check=True first reads and\n"   \
  "checks the whole file.  The file must not be changed as long as it is mapped: replace it by\n" \
  "another file.  A Cuckoo that grows, or is or was shared, or a filter with a window, cannot\n"  \
  "be mapped: load it."

#define SHARED_TEXT                                                                             \
  "shared($module, path, /, capacity=None, fpp=0.01, *, kind=None, window=0,\n"                 \
  "       window_renews=False, growable=None, max_bytes=None, seed=None,\n"                     \
  "       layout='blocked', file_mode=None, group=None)\n"                                      \
  "--\n\n"                                                                                      \
  "Open a filter in a file that any number of processes change at once.\n\n"                    \
  "The first process creates the file; all others get the same filter, and must ask for the\n"  \
  "same options.  Without a capacity the file must exist.  path may be a file descriptor, or\n" \
  "None for memory that this process shares with children that it forks later.  If several\n"   \
  "processes add a new key, one gets True.  A process that is killed loses no key whose add\n"  \
  "has returned.\n\n"                                                                           \
  "kind       None or Bloom: a Bloom filter; Cuckoo: a filter with removes, which does not\n"   \
  "           grow, and raises FullError for a seventh copy of a key\n"                         \
  "growable   None: a Bloom grows if max_bytes is given.  It then needs max_bytes of address\n" \
  "           space, and only the disk space that it uses\n" ACCESS_TEXT                        \
  "seed       None: with a path, a random seed for this filter alone\n"                         \
  "The other options are those of Bloom.\n\n"                                                   \
  "ValueError says what is wrong with the options, or which option differs from the file's.\n"  \
  "OSError, CorruptError: something is wrong with the file."

#define FROM_BYTES_TEXT                                                                        \
  "from_bytes($module, data, /, *, max_bytes=None)\n"                                          \
  "--\n\n"                                                                                     \
  "Load a filter from the result of to_bytes, or from the contents of a file, as bytes or\n"   \
  "another buffer.  Exceptions are those of load; io.UnsupportedOperation: the file is that\n" \
  "of a shared Cuckoo or window, which load can read."

#define FROM_TEXT_TEXT                                                                             \
  "from_text($module, text, /, *, max_bytes=None)\n"                                               \
  "--\n\n"                                                                                         \
  "Load a filter from the text that to_text, or toJSON in JavaScript, has made.  Exceptions are\n" \
  "those of load; CorruptError also: the text is not base64."

#define CONTAINS_EACH_TEXT                                                                        \
  "contains_each($module, filters, key, /)\n"                                                     \
  "--\n\n"                                                                                        \
  "Return which of many filters may hold a key: a list of bools, one for each filter.\n\n"        \
  "The filters may have different kinds; None holds no key.  The call is faster than a look-up\n" \
  "in one filter after the other.  Any number of threads may call it.\n\n"                        \
  ">>> import tamis\n"                                                                            \
  ">>> days = [tamis.Bloom(1000, 1e-9), tamis.Cuckoo(1000, 1e-6)]\n"                              \
  ">>> days[1].add(7)\n"                                                                          \
  "True\n"                                                                                        \
  ">>> tamis.contains_each(days, 7)\n"                                                            \
  "[False, True]"

#define CONTAINS_EACH_MANY_TEXT                                                                  \
  "contains_each_many($module, filters, keys, /)\n"                                              \
  "--\n\n"                                                                                       \
  "Call contains_each for each of the keys: return a list of such lists or, for a numpy array\n" \
  "of keys, a numpy array of bools with a row for each key.  keys are those of update.\n\n"      \
  ">>> import tamis\n"                                                                           \
  ">>> days = [tamis.Bloom(1000, 1e-9), tamis.Cuckoo(1000, 1e-6)]\n"                             \
  ">>> days[1].add(7)\n"                                                                         \
  "True\n"                                                                                       \
  ">>> tamis.contains_each_many(days, [7, 8])\n"                                                 \
  "[[False, True], [False, False]]"

#define PAGE_TEXT                                                                                  \
  "to_prometheus($module, filters, /)\n"                                                           \
  "--\n\n"                                                                                         \
  "Return one page in Prometheus' text format, with the figures of several filters.  filters is\n" \
  "a dict from the name to the filter."

#define RESTORE_TEXT "For pickle."

#endif /* TAMIS_PYTHON_TEXT_H */
