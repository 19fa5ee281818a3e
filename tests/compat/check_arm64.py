#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether arm64 code orders memory as the library's comments say.

    check_arm64.py SOURCE_DIR OBJDUMP COMPILER [FLAG ...]

Compiles arm64_orders.c, which has one function for each kind of access, and looks at the code.

    - A stripe is taken by a read-modify-write, and what it protects is read only after that has
      acquired, or after a barrier.  It is released by a store that releases, or that comes after a
      barrier behind what was written under it.
    - Every access with an ORDER comment has a function, and in it an instruction (or a call of
      libgcc's, whose name says it) of that order.

Then it does so again with the mutants in BUGS, and requires that each is found.  On
arm64 no instruction tells a release or acquire from a seq_cst access, so bugs of that sort are left
to the model.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# Each with what it breaks.
BUGS = {"stripe_unlocked_without_barrier": "stripe.unlock", "stripe_locked_without_barrier": "stripe.lock",
        "version_bump_relaxed": "version.bump", "version_before_relaxed": "version.before",
        "directory_published_relaxed": "generations.publish", "segment_published_relaxed": "directory.load",
        "growth_published_relaxed": "growth.publish", "growth_loaded_relaxed": "growth.load",
        "index_released_relaxed": "index.release", "index_acquired_relaxed": "index.acquire",
        "counter_added_relaxed": "counter.add", "counter_summed_relaxed": "counter.sum",
        "counted_leave_relaxed": "counted.leave", "operations_load_relaxed": "operations.load",
        "layer_load_relaxed": "layer.load", "openers_begun_relaxed": "openers.begin",
        "rooms_counted_relaxed": "fullness.count", "rooms_read_relaxed": "fullness.counted",
        "epoch_before_relaxed": "epoch.read",
        "window_layer_opened_relaxed": "layer.opened", "window_version_bump_relaxed": "window.version_bump",
        "memo_taken_relaxed": "memo.take", "memo_given_back_relaxed": "memo.give_back",
        "owned_lock_relaxed": "owned.lock", "owned_unlock_relaxed": "owned.unlock",
        "end_set_relaxed": "layer.end",
        "waiting_ends_relaxed": "segment.waited", "waiting_calls_read_relaxed": "segment.in_use"}

# Mnemonics of accesses, as far as compilers make use of them, with their order.
LSE = r"(?:cas|swp|ldadd|ldclr|ldset|ldeor)"
CALL = r"bl?\s.*<__aarch64_(?:cas|swp|ldadd|ldclr|ldset|ldeor)\d+_"
ACQUIRING = {"load": r"ldap?r|ldaxr", "change": rf"ldaxr|{LSE}al?[bh]?\b|{CALL}acq(?:_rel)?>"}
RELEASING = {"store": r"stlr|stlxr", "change": rf"stlxr|{LSE}a?l[bh]?\b|{CALL}(?:acq_)?rel>"}
EITHER = rf"ldaxr|stlxr|ldxr|stxr|{LSE}a?l?[bh]?\b|{CALL}"
BARRIER = r"dmb\s+(?:sy|ish)\b"
STORE = r"st(?:r|p|ur|lr|lxr|xr)[bh]?\s"
LOAD = r"ld(?:r|p|ur)[bh]?\s"


def functions(objdump, binary):
    """name -> its instructions, as text"""
    text = subprocess.run([objdump, "-dr", "--no-show-raw-insn", binary], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    found, code = {}, []
    for line in text.splitlines():
        if start := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            code = found[start[1]] = []
        elif call := re.match(r"\s+[0-9a-f]+: R_AARCH64_(?:CALL|JUMP)26\s+(\w+)", line):
            code[-1] = f"bl <{call[1]}>"
        elif instruction := re.match(r"\s+[0-9a-f]+:\s+(.*)", line):
            code.append(instruction[1])
    for name, code in found.items():
        if tail := re.match(r"bl?\s.*<(\w+)>", code[-1]) if code else None:  # another function is the rest of it
            found[name] = code + found.get(tail[1], [])
    return found


def first(code, pattern, begin=0):
    for i in range(begin, len(code)):
        if re.match(pattern, code[i]):
            return i
    return None


def wrong_lock(code, end):
    """`end`: what must not come before the lock is acquired."""
    taken = first(code, EITHER)
    if taken is None:
        return "no atomic read-modify-write"
    if re.match(ACQUIRING["change"], code[taken]):
        return None
    barrier, protected = first(code, BARRIER, taken), first(code, end, taken)
    return None if barrier is not None and (protected is None or barrier < protected) else \
        "no barrier between the lock and what it protects"


def wrong_unlock(code):
    stores = [i for i, line in enumerate(code) if re.match(STORE, line)]
    if len(stores) < 2:
        return "not two stores"
    if re.match(RELEASING["store"], code[stores[-1]]):
        return None
    barrier = first(code, BARRIER, stores[0])
    return None if barrier is not None and barrier < stores[-1] else \
        "no barrier between what the lock protects and the store that releases it"


def wrong_access(code, kind, order):
    needs = [t[kind] for t, orders in ((ACQUIRING, "seq_cst acquire acq_rel"), (RELEASING, "seq_cst release acq_rel"))
             if kind in t and order in orders.split()]
    if not needs:
        return f"a {kind} cannot be {order}"
    return None if all(first(code, need) is not None for need in needs) else f"no {order} {kind}"


def order_comments(lib):
    for file in sorted(lib.rglob("*.[ch]")):
        for tag, order in re.findall(r"ORDER ([a-z_]+\.[a-z_]+) \((\w+)\)", file.read_text()):
            yield tag, order


def faults(root, objdump, compile_command):
    """What is wrong with the code of the library in a source tree."""
    with tempfile.TemporaryDirectory() as work:
        binary = f"{work}/orders.o"
        subprocess.run([*compile_command, "-O2", "-DNDEBUG", "-D_GNU_SOURCE", "-I", root / "include", "-I", root / "lib",
                        "-c", root / "tests/compat/arm64_orders.c", "-o", binary], check=True)
        code = functions(objdump, binary)
    accesses = dict(reversed(name.split("__")) for name in code if re.match("(load|store|change)__", name))
    found = [("stripe.lock", wrong_lock(code["lock__stripe"], rf"{LOAD}.*\[x1\]|ret")),
             ("stripe.wait", wrong_lock(code["tamis__lock_wait"], "ret")),
             ("stripe.unlock", wrong_unlock(code["unlock__stripe"]))]
    for tag, order in order_comments(root / "lib"):
        name = tag.replace(".", "_")
        kind = accesses.get(name)
        found.append((tag, wrong_access(code[f"{kind}__{name}"], kind, order) if kind else
                      "not in tests/compat/arm64_orders.c"))
    return [f"{tag}: {wrong}" for tag, wrong in found if wrong]


def main(source, objdump, *compile_command):
    source = pathlib.Path(source)
    found = faults(source, objdump, compile_command)
    if found:
        return "\n".join(found)
    mutate = source / "tests/mutants/mutate"
    with tempfile.TemporaryDirectory() as work:
        tree = pathlib.Path(work)
        subprocess.run(["cp", "-R", source / "lib", source / "include", source / "tests", tree], check=True)
        for bug in BUGS:
            subprocess.run([mutate, "apply", tree, bug], check=True)
        found = faults(tree, objdump, compile_command)
    print("\n".join(found))
    missed = [bug for bug, tag in BUGS.items() if not any(fault.startswith(tag + ":") for fault in found)]
    return "mutants that are not found: " + ", ".join(missed) if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
