#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what a service that hosts the project reads: its forms for issues, and its workflows.

    check_github.py TREE

  - A form has a name, a description and fields whose names differ; that for bugs demands what
    `tamis info --report` prints, and says where vulnerabilities are reported.
  - The workflow runs .ci/run on Debian 12, keeps the logs also of a gate that fails, may write nothing, and
    takes actions by their major version.

Each rule is tried first on something that breaks it.
"""
import copy
import pathlib
import re
import sys

import yaml


def form_faults(form):
    for key in ("name", "description", "body"):
        if not form.get(key):
            yield f"no {key}"
    fields = [field for field in form.get("body") or [] if field.get("type") != "markdown"]
    names = [field.get("id") for field in fields]
    if len(set(names)) < len(names) or None in names:
        yield "fields without a name of their own"
    if any(not field.get("attributes", {}).get("label") for field in fields):
        yield "a field without a label"


def bug_faults(form):
    yield from form_faults(form)
    asked = [field for field in form.get("body") or []
             if "`tamis info --report`" in field.get("attributes", {}).get("label", "")]
    if not any(field.get("validations", {}).get("required") for field in asked):
        yield "it does not demand the output of tamis info --report"
    if "SECURITY.md" not in str(form.get("body")):
        yield "it does not name SECURITY.md"


def workflow_faults(workflow):
    if workflow.get("permissions") != {"contents": "read"}:
        yield "it may do more than read"
    jobs = list(workflow.get("jobs", {}).values())
    steps = [step for job in jobs for step in job["steps"]]
    if any(job.get("container", {}).get("image") != "debian:12" for job in jobs):
        yield "it does not run on Debian 12"
    if not any(re.search(r"^\.ci/run$", step.get("run", ""), re.M) for step in steps):
        yield "it does not run .ci/run"
    used = [step["uses"] for step in steps if "uses" in step]
    if any(not re.fullmatch(r"[\w-]+/[\w-]+@v\d+", action) for action in used):
        yield "an action without its major version"
    kept = [step for step in steps if step.get("uses", "").startswith("actions/upload-artifact@")]
    if not any(step.get("if") == "always()" and step["with"]["path"] == "build/logs" for step in kept):
        yield "it does not always keep the logs"
    before = [str(step) for step in steps[: next(i for i, step in enumerate(steps) if "checkout" in str(step))]]
    if not any("git" in step for step in before):
        yield "it fetches the tree without git"


def broken(value, *path, to):
    """A copy, in which one place says something else."""
    result = copy.deepcopy(value)
    place = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return result


def try_rules(bug, workflow):
    """Each rule objects to what breaks it."""
    steps = workflow["jobs"]["gate"]["steps"]
    tries = [
        (bug_faults, broken(bug, "name", to="")), (bug_faults, broken(bug, "body", 1, "id", to="report")),
        (bug_faults, broken(bug, "body", 1, "attributes", to={})), (bug_faults, broken(bug, "body", 0, to={"type": "markdown"})),
        (bug_faults, broken(bug, "body", to=bug["body"][:3])),
        (workflow_faults, broken(workflow, "permissions", to={"contents": "write"})),
        (workflow_faults, broken(workflow, "jobs", "gate", "container", "image", to="debian:13")),
        *((workflow_faults, broken(workflow, "jobs", "gate", "steps", to=steps[:i] + steps[i + 1:]))
          for i in (0, 2, 3)),
        (workflow_faults, broken(workflow, "jobs", "gate", "steps", 1, "uses", to="actions/checkout@main")),
        (workflow_faults, broken(workflow, "jobs", "gate", "steps", 3, "if", to="success()"))]
    return [f"a rule of {rule.__name__} that finds nothing: try {i}" for i, (rule, wrong) in enumerate(tries)
            if not list(rule(wrong))]


def main(tree):
    folder = pathlib.Path(tree) / ".github"
    read = {path.relative_to(folder).as_posix(): yaml.safe_load(path.read_text()) for path in sorted(folder.rglob("*.yml"))}
    found = []
    for name, content in read.items():
        rule = (bug_faults if name.endswith("/bug.yml") else workflow_faults if name.startswith("workflows/") else form_faults)
        found += [f".github/{name}: {fault}" for fault in rule(content)]
    if "script/test" not in (pathlib.Path(tree) / ".ci/run").read_text():
        found.append(".ci/run does not run script/test")
    found += try_rules(read["ISSUE_TEMPLATE/bug.yml"], read["workflows/gate.yml"])
    print("\n".join(found) or f"{len(read)} files")
    return bool(found)


sys.exit(main(sys.argv[1]))
