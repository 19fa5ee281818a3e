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

#define ONE_LAYER_TEXT                                                                          \
  "only Bloom filters that have not grown and have no window have an intersection, and can be " \
  "compared so: growable=False keeps them from growing"

#define NO_WINDOW_TEXT "the filter has no window: create it with window=PERIODS"

/* ---- what all constructors take ---- */

#define KEY_TEXT                                                                            \
  "A key is a str (as UTF-8), an int (as 8 bytes), bytes, or another contiguous buffer;\n"  \
  "equal numbers are one key.  TypeError: something else.  OverflowError: an int that is\n" \
  "not from -2**63 to 2**64 - 1.  UnicodeEncodeError: a str with surrogates.\n"

#define OPTIONS_TEXT                                                                               \
  "capacity   distinct keys expected, 1 to about 2**46\n"                                          \
  "fpp        the probability of a wrong \"yes\" with that many keys in, above 0 and below 1\n"    \
  "growable   True: the filter takes more keys than that, and keeps its rate.\n"                   \
  "           False: a key that finds no room raises FullError\n"                                  \
  "max_bytes  the filter never takes more memory than this; None: no limit\n"                      \
  "seed       1 to 2**64 - 1; None: a random secret that all filters of this program have, and\n"  \
  "           of the processes that it forks or that multiprocessing starts: so they can be\n"     \
  "           united; 0: a random one of its own.  Give a filter 0 whose bytes others will see,\n" \
  "           as they have the seed in them\n"

#define WINDOW_OPTIONS_TEXT                                                                    \
  "window     periods, at most 64, for which a key is remembered after its last add; 0: for\n" \
  "           ever.  advance(), or a Ticker, ends a period\n"                                  \
  "window_renews  whether an add of a key that is in renews its time\n"

#define PERIODS_TEXT                                                                              \
  "periods: a filter with a window remembers the key while so many more periods run, from 0 to\n" \
  "the window; None: for the whole window.  Of two ends the later one holds; but a key that is "  \
  "in\n"                                                                                          \
  "keeps its end, unless this adds a copy or the filter has window_renews.  ValueError: more, "   \
  "or\n"                                                                                          \
  "no window.\n\n"

#define THREADS_TEXT "All methods may be called by any number of threads at once.\n"

#define REFUSED_TEXT \
  "ValueError says which option is refused, and what is allowed.  MemoryError: no memory.\n"

/* ---- Filter ---- */

#define FILTER_TEXT                                                                                \
  "What Bloom, Cuckoo and CountingBloom have in common.\n\n"                                       \
  "A filter is like a set that does not store its keys.  \"key in f\" is always right when it\n"   \
  "is False; when it is True, it is wrong with a small probability that you "                      \
  "choose.\n" THREADS_TEXT "\nlen(f) is how many adds said that the key was new, less what was "   \
  "removed or forgotten; of a\n"                                                                   \
  "Cuckoo and a CountingBloom it counts copies.\n"                                                 \
  "f |= g adds all keys of another filter with the same options and seed, and f | g is a new "     \
  "one.\n"                                                                                         \
  "f == g compares options and bits.  The bits of a Bloom and a CountingBloom follow from their\n" \
  "keys; those of a Cuckoo, and with a window, also from the order of their adds.  As filters\n"   \
  "change, they have no hash(): id(f) can be the key of a dict."

#define UNION_TEXT                                                                              \
  "union($self, /, *others)\n--\n\n"                                                            \
  "A new private filter with the keys of all: of filters with the same options and seed, and\n" \
  "of what update takes."

#define INTERSECTION_TEXT                                                                    \
  "intersection($self, /, *others)\n--\n\n"                                                  \
  "A new filter that finds what all find: filters with the same options and seed, or what\n" \
  "update takes.  ValueError: one of them does not fit, has grown, or has a window.\n\n"     \
  ">>> import tamis\n"                                                                       \
  ">>> a, b = tamis.Bloom(1000, 1e-6), tamis.Bloom(1000, 1e-6)\n"                            \
  ">>> a.update([1, 2]), b.update([2, 3])\n"                                                 \
  "(None, None)\n"                                                                           \
  ">>> [key in a & b for key in (1, 2, 3)], a | b == b | a, a & b <= a\n"                    \
  "([False, True, False], True, True)"

#define INTERSECTION_UPDATE_TEXT                                               \
  "intersection_update($self, /, *others)\n--\n\n"                             \
  "Keep what intersection finds.  What other threads add meanwhile is lost.\n" \
  "io.UnsupportedOperation: the filter is shared or mapped."

#define IS_SUBSET_TEXT                                                                       \
  "issubset($self, other, /)\n--\n\n"                                                        \
  "Whether another filter with the same options and seed has all bits of this one, and so\n" \
  "finds all that this one finds: f <= other.  other may be what update takes."

#define IS_SUPERSET_TEXT                \
  "issuperset($self, other, /)\n--\n\n" \
  "Whether this has all bits of another filter, or may have each key of what update takes."

#define IS_DISJOINT_TEXT                                                                          \
  "isdisjoint($self, other, /)\n--\n\n"                                                           \
  "Whether none of the keys is in: True is certain.  Of two Bloom filters it is True if no bit\n" \
  "is in both, which is so only while they are nearly empty: similarity estimates."

#define CLEAR_TEXT                                                                             \
  "clear($self, /)\n--\n\n"                                                                    \
  "Forget all keys, and give back the memory of growth.  Options and seed stay.  What other\n" \
  "threads add meanwhile may be lost.  io.UnsupportedOperation: the filter is shared or mapped."

#define ADD_TEXT                                                                                  \
  "add($self, key, /, *, periods=None)\n--\n\n"                                                   \
  "Add a key, and return True if it was new.\n\n"                                                 \
  "Of all threads, and of all processes that share the filter, that add a new key, exactly\n"     \
  "one gets True.  (None does if the key is a false positive.)\n\n"                               \
  "A Cuckoo and a CountingBloom count: each add is one copy more, also of a key that is in, so\n" \
  "that a discard or remove takes away no key but its own.  A key that was added twice is in\n"   \
  "until it is removed twice.\n\n" PERIODS_TEXT KEY_TEXT                                          \
  "FullError: a limit of the filter is reached.  MemoryError: it cannot grow.  After an\n"        \
  "exception nothing has changed.\n\n"                                                            \
  ">>> import tamis\n"                                                                            \
  ">>> f = tamis.Bloom(1000)\n"                                                                   \
  ">>> f.add(\"apple\"), f.add(\"apple\")\n"                                                      \
  "(True, False)\n"                                                                               \
  ">>> sessions = tamis.Bloom(1000, 1e-6, window=60)  # periods of a minute\n"                    \
  ">>> sessions.add(\"guest\", periods=5), sessions.add(\"member\", periods=30)\n"                \
  "(True, True)\n"                                                                                \
  ">>> for minute in range(6):\n"                                                                 \
  "...     sessions.advance()\n"                                                                  \
  ">>> \"guest\" in sessions, \"member\" in sessions\n"                                           \
  "(False, True)"

#define ADD_COPY_TEXT                                                                           \
  "add_copy($self, key, /, *, periods=None)\n--\n\n"                                            \
  "Add a key, also if it is in: add without its answer.\n\n"                                    \
  "A Cuckoo and a CountingBloom then have one copy of the key more (see count), and a window\n" \
  "remembers the key anew.  periods and exceptions are those of add.\n\n"                       \
  ">>> import tamis\n"                                                                          \
  ">>> f = tamis.Cuckoo(1000)\n"                                                                \
  ">>> for _ in range(3):\n"                                                                    \
  "...     f.add_copy(\"apple\")\n"                                                             \
  ">>> f.count(\"apple\")\n"                                                                    \
  "3"

#define ADD_UNIQUE_TEXT                                                                            \
  "add_unique($self, key, /, *, periods=None)\n--\n\n"                                             \
  "Add a key if it is not in, and return True then: add without a copy more.\n\n"                  \
  "For filters from which nothing is removed.  A key that a false positive hides is not stored:\n" \
  "its discard would take another key away, and with that key's discard it would be gone, too."

#define ADD_UNIQUE_MANY_TEXT                                 \
  "add_unique_many($self, keys, /, *, periods=None)\n--\n\n" \
  "add_unique for each of the keys.  Keys, results and exceptions are those of add_many."

#define COUNT_TEXT                                      \
  "count($self, key, /)\n--\n\n"                        \
  "How many copies of a key are in; never too few.\n\n" \
  "A Bloom filter has 1 or 0, and a CountingBloom says 15 for 15 or more."

#define HASH_TEXT                                                                                \
  "hash($self, key, /)\n--\n\n"                                                                  \
  "The 64-bit hash of a key under the filter's seed.  Filters of one seed agree on it, in all\n" \
  "programs and on all machines."

#define UPDATE_TEXT                                                                                \
  "update($self, /, *iterables, periods=None)\n--\n\n"                                             \
  "Add all keys of iterables: lists, generators, numpy arrays of S, U or integers, Arrow\n"        \
  "arrays (pyarrow 14 or later).\n\n"                                                              \
  "Rows of a two-dimensional array of bytes (uint8) are keys, too, and so are elements of V: "     \
  "take\n"                                                                                         \
  "these for digests, as numpy has S without the zeros at its end.\n\n"                            \
  "Other threads run meanwhile.  Keys are taken in parts.  If one is no key, or an iterable\n"     \
  "raises, the keys before it are in, and the exception passes through.  (Of an array, nothing\n"  \
  "is added then.)  Ctrl-C ends the call between two parts.  FullError comes when all keys of a\n" \
  "part, or of an array, have been tried.\n"                                                       \
  "A single str or bytes is no iterable of keys, and raises TypeError.\n\n"                        \
  ">>> import tamis\n"                                                                             \
  ">>> f = tamis.Bloom(1000)\n"                                                                    \
  ">>> f.update([\"apple\", \"pear\"], (n * n for n in range(10)))\n"                              \
  ">>> \"pear\" in f and 81 in f\n"                                                                \
  "True"

#define ADD_MANY_TEXT                                                                           \
  "add_many($self, keys, /, *, periods=None)\n--\n\n"                                           \
  "Add keys, and return for each whether it was new, as add does.\n\n"                          \
  "The result is a numpy array of bools for a numpy array, and else a list.  keys is what\n"    \
  "update takes, and exceptions are as there.  An exception gets the attribute results, if it " \
  "has\n"                                                                                       \
  "none: a list for the keys that were tried, with None for each one that was refused.\n\n"     \
  ">>> import tamis\n"                                                                          \
  ">>> tamis.Bloom(1000).add_many([\"apple\", \"pear\", \"apple\"])\n"                          \
  "[True, True, False]"

#define CONTAINS_MANY_TEXT                                                                      \
  "contains_many($self, keys, /)\n--\n\n"                                                       \
  "For each of the keys whether it is in: a numpy array of bools for a numpy array, and else\n" \
  "a list.  keys is what update takes.\n\n"                                                     \
  ">>> import tamis\n"                                                                          \
  ">>> f = tamis.Bloom(1000, 1e-9)\n"                                                           \
  ">>> f.add(7)\n"                                                                              \
  "True\n"                                                                                      \
  ">>> f.contains_many([7, 8])\n"                                                               \
  "[True, False]"

#define ACCESS_TEXT                                                                               \
  "file_mode  permission bits of the new file, such as 0o640; None: 0o600, since whoever reads\n" \
  "           the file learns the seed\n"                                                         \
  "group      its group, by name or number; needs file_mode\n"

#define SAVE_TEXT                                                                              \
  "save($self, path, /, *, file_mode=None, group=None)\n--\n\n"                                \
  "Save the filter to a file, which load, open, the command tamis, and C read.\n\n"            \
  "Other threads may go on to use the filter: keys whose add has returned before are saved.\n" \
  "The file is replaced only when the new one is whole and on the disk.  OSError says what\n"  \
  "failed; the old file then stays.\n\n" ACCESS_TEXT

#define TO_BYTES_TEXT          \
  "to_bytes($self, /)\n--\n\n" \
  "What save would write, as bytes; from_bytes reads them."

#define TO_TEXT_TEXT                                                                             \
  "to_text($self, /)\n--\n\n"                                                                    \
  "What save would write, as a str in base64, for JSON, a cookie or an environment; from_text\n" \
  "reads it.  Strangers who see it learn the seed: create the filter with seed=0.\n\n"           \
  ">>> import json, tamis\n"                                                                     \
  ">>> f = tamis.Bloom(10, seed=0)\n"                                                            \
  ">>> f.add(\"apple\")\n"                                                                       \
  "True\n"                                                                                       \
  ">>> document = json.dumps({\"seen\": f.to_text()})\n"                                         \
  ">>> \"apple\" in tamis.from_text(json.loads(document)[\"seen\"], max_bytes=10000)\n"          \
  "True"

#define COPY_TEXT                                                                                \
  "copy($self, /)\n--\n\n"                                                                       \
  "A copy: of a private filter another filter with the same keys.  A filter that is shared or\n" \
  "mapped is opened once more, so its copy is the same filter to all intents."

#define REDUCE_TEXT \
  "For pickle: a private filter by its bytes, one that is shared or mapped by its path."

#define STATS_TEXT          \
  "stats($self, /)\n--\n\n" \
  "The figures of the filter as a tamis.Stats."

#define TO_PROMETHEUS_TEXT                                                                    \
  "to_prometheus($self, name, /)\n--\n\n"                                                     \
  "The figures in Prometheus' text format, with the label name.  tamis.to_prometheus makes\n" \
  "one page of several filters."

#define TO_JSON_TEXT                     \
  "to_json($self, name=None, /)\n--\n\n" \
  "The figures as an object in JSON."

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
  "The bytes of memory that a filter with these options takes; the arguments are those of the\n" \
  "constructor.  Nothing is allocated."

#define DISCARD_TEXT                                                                           \
  "discard($self, key, /)\n--\n\n"                                                             \
  "Remove one copy of a key, and return whether there was one.\n\n"                            \
  "Remove a key as often as add, update or add_many have added it, and never otherwise: with " \
  "its\n"                                                                                      \
  "false-positive probability the filter takes it for another key, and forgets that one."

#define REMOVE_TEXT                                                                          \
  "remove($self, key, /)\n--\n\n"                                                            \
  "Remove one copy of a key; KeyError if there is none.  See discard for what must not be\n" \
  "removed."

#define ADVANCE_TEXT                                                                           \
  "advance($self, /)\n--\n\n"                                                                  \
  "End a period of a filter with a window: the keys are forgotten whose last add was in the\n" \
  "oldest period that was remembered.\n\n"                                                     \
  ">>> import tamis\n"                                                                         \
  ">>> f = tamis.Bloom(1000, window=1)\n"                                                      \
  ">>> f.add(\"apple\")\n"                                                                     \
  "True\n"                                                                                     \
  ">>> f.advance()\n"                                                                          \
  ">>> \"apple\" in f\n"                                                                       \
  "True\n"                                                                                     \
  ">>> f.advance()\n"                                                                          \
  ">>> \"apple\" in f\n"                                                                       \
  "False"

#define ADVANCE_TO_TEXT                                                                         \
  "advance_to($self, period, /)\n--\n\n"                                                        \
  "End periods until the one with this number runs, from 0 to 2**36 - 1: none if it does, or\n" \
  "has ended.\n\n"                                                                              \
  "So processes that share a filter and go by one clock all call it, with time.time() //\n"     \
  "SECONDS as an int, and whoever comes first ends the period.  A new filter is in period 0:\n" \
  "call advance_to before the first add, which else is forgotten by it.\n\n"                    \
  ">>> import tamis\n"                                                                          \
  ">>> f = tamis.Bloom(1000, window=1)\n"                                                       \
  ">>> f.advance_to(5)\n"                                                                       \
  ">>> f.add(\"apple\")\n"                                                                      \
  "True\n"                                                                                      \
  ">>> f.advance_to(6), f.advance_to(6), \"apple\" in f\n"                                      \
  "(None, None, True)"

#define SET_PERIOD_TEXT                                                                            \
  "set_period($self, period, /)\n--\n\n"                                                           \
  "Give the period that runs another number; each key keeps its age.\n\n"                          \
  "So a window goes on whose number a wrong clock has moved far ahead (stats().period says it),\n" \
  "as advance_to would not end any period of it until then."

#define SYNC_TEXT                                                                              \
  "sync($self, /)\n--\n\n"                                                                     \
  "Of a shared filter: return when all that was added before is on the disk, and survives a\n" \
  "failure of power.  ValueError: the filter is not shared.  OSError: the disk."

#define SIMILARITY_TEXT                                                                           \
  "similarity($self, other, /)\n--\n\n"                                                           \
  "How much two Bloom filters have in common, as a tamis.Similarity of estimates.  ValueError:\n" \
  "they have other options or another seed, have grown, or have a window."

/* ---- the module ---- */

#define ERROR_TEXT "What FullError and CorruptError have in common."
#define FULL_TEXT                                                                                  \
  "A limit of a filter (its capacity without growth, or max_bytes) is reached.  Of a batch, the\n" \
  "attribute results has True, False, or None (refused) for each key."
#define CORRUPT_TEXT "What was read is no saved filter, or not all of one."

#define LOAD_TEXT                                                                             \
  "load($module, path, /, *, max_bytes=None)\n--\n\n"                                         \
  "The filter that save, the command tamis, or a program in another language has saved.\n\n"  \
  "All of the file is checked.  Set max_bytes for a file that you do not trust: the filter\n" \
  "never takes more memory.  OSError (FileNotFoundError, ...): it cannot be read.\n"          \
  "CorruptError: it holds no filter, or is damaged.  FullError: max_bytes."

#define OPEN_TEXT                                                                               \
  "open($module, path, /, *, check=False)\n--\n\n"                                              \
  "Map a saved filter for look-ups, at once and in memory that all processes share.\n\n"        \
  "Nothing can be added to it (io.UnsupportedOperation).  check=True reads and checks all of\n" \
  "the file first.  The file must not be changed as long as it is mapped: replace it by\n"      \
  "another one.  A Cuckoo that grows and a filter with a window cannot be mapped: load them."

#define SHARED_TEXT                                                                                \
  "shared($module, path, /, capacity=None, fpp=0.01, *, kind=None, window=0,\n"                    \
  "       window_renews=False, growable=None, max_bytes=None, seed=None,\n"                        \
  "       layout='blocked', file_mode=None, group=None)\n--\n\n"                                   \
  "A filter in a file that any number of processes change at once.\n\n"                            \
  "Whoever comes first creates the file; all others get the same filter, and must ask for the\n"   \
  "same options.  Without a capacity the file must be there.  path may be a file descriptor, or\n" \
  "None for memory that processes share which this one forks later.  Of all processes that add\n"  \
  "a key, one gets True.  A process that is killed loses no key.\n\n"                              \
  "kind       None or Bloom: a Bloom filter; Cuckoo: one with removes, which does not grow, and\n" \
  "           raises FullError for a seventh copy of a key\n"                                      \
  "growable   None: if max_bytes is given, as a file is planned up to it; it then needs\n"         \
  "           max_bytes of address space, and of the disk what is used\n" ACCESS_TEXT              \
  "The other options are those of Bloom.\n\n"                                                      \
  "ValueError says what is wrong with the options, or which one the file has otherwise.\n"         \
  "OSError, CorruptError: the file."

#define FROM_BYTES_TEXT                                                                      \
  "from_bytes($module, data, /, *, max_bytes=None)\n--\n\n"                                  \
  "The filter that to_bytes has made, or that a file holds, from bytes or another buffer.\n" \
  "Exceptions are those of load."

#define FROM_TEXT_TEXT                                                                           \
  "from_text($module, text, /, *, max_bytes=None)\n--\n\n"                                       \
  "The filter of which to_text, or toJSON in JavaScript, has made text.  Exceptions are those\n" \
  "of load; CorruptError also: no base64."

#define CONTAINS_EACH_TEXT                                                                   \
  "contains_each($module, filters, key, /)\n--\n\n"                                          \
  "Which of many filters may hold a key: a list of bools, one for each filter.\n\n"          \
  "The filters may be of any kinds, and None holds no key.  It takes a third to a half of\n" \
  "the time in which C asks one after the other.  Any number of threads may ask.\n\n"        \
  ">>> import tamis\n"                                                                       \
  ">>> days = [tamis.Bloom(1000, 1e-9), tamis.Cuckoo(1000, 1e-6)]\n"                         \
  ">>> days[1].add(7)\n"                                                                     \
  "True\n"                                                                                   \
  ">>> tamis.contains_each(days, 7)\n"                                                       \
  "[False, True]"

#define CONTAINS_EACH_MANY_TEXT                                                                 \
  "contains_each_many($module, filters, keys, /)\n--\n\n"                                       \
  "contains_each for each of the keys: a list of such lists or, for a numpy array of keys, a\n" \
  "numpy array of bools with a row for each key.  keys is what update takes.\n\n"               \
  ">>> import tamis\n"                                                                          \
  ">>> days = [tamis.Bloom(1000, 1e-9), tamis.Cuckoo(1000, 1e-6)]\n"                            \
  ">>> days[1].add(7)\n"                                                                        \
  "True\n"                                                                                      \
  ">>> tamis.contains_each_many(days, [7, 8])\n"                                                \
  "[[False, True], [False, False]]"

#define PAGE_TEXT                                                                               \
  "to_prometheus($module, filters, /)\n--\n\n"                                                  \
  "One page in Prometheus' text format, with the figures of several filters: a dict that has\n" \
  "each filter by its name."

#define RESTORE_TEXT "For pickle."

#endif /* TAMIS_PYTHON_TEXT_H */
