# SPDX-License-Identifier: MIT
"""Rounds in which all subjects take turns, so that whatever else the machine does affects all of them alike; of Google
Benchmark, which measures the library, and of the programs here that measure packages and modules."""
import json
import re
import subprocess
import tempfile


def interleaved(rounds, subjects, measure):
    """What measure(subject) returns: {name: [result of a round, ...]}."""
    results = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, subject in subjects.items():
            results[name].append(measure(subject))
    return results


def name(subject, workload, keys, fpp, threads=1):
    return f"{subject}/{workload}/keys:{keys:.0f}/fpp:{fpp:g}", threads


def run(program, filter_, rounds, *options):
    """Benchmarks whose names match: {(name, threads): [result of a round, ...]}."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([program, f"--benchmark_filter={filter_}", f"--benchmark_repetitions={rounds}",
                        "--benchmark_enable_random_interleaving=true", f"--benchmark_out={out.name}", *options],
                       check=True, stdout=subprocess.DEVNULL)
        whole = json.load(out)
    results = {}
    for result in whole["benchmarks"]:
        if result["run_type"] == "iteration":
            if "error_message" in result:
                raise SystemExit(f"{result['name']}: {result['error_message']}")
            short = re.match(r"[^/]*/[^/]*/[^/]*/[^/]*", result["name"])[0]
            results.setdefault((short, result["threads"]), []).append(result)
    return results
