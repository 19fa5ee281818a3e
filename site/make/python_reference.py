#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what the Python package exports, as JSON: signatures from its stub, texts from its docstrings.

    python_reference.py STUB        the package tamis must be importable
"""
import ast
import inspect
import json
import pathlib
import sys

import tamis


def signature_of(node, owner=None):
    """The line that declares a function, without self."""
    arguments = node.args
    for given in (arguments.posonlyargs, arguments.args):
        if owner and given and given[0].arg in ("self", "cls"):
            del given[0]
            break
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    name = owner if node.name == "__new__" else node.name
    return f"{name}({ast.unparse(arguments).removeprefix('/, ')}){'' if node.name == '__new__' else result}"


def is_property(node):
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def in_stub(stub):
    """Of the stub: signatures of functions, and of the members of classes."""
    found = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = signature_of(node)
        elif isinstance(node, ast.ClassDef):
            members = {member.name: f"{member.name}: {ast.unparse(member.returns)}" if is_property(member)
                       else signature_of(member, node.name)
                       for member in node.body if isinstance(member, ast.FunctionDef)}
            found[node.name] = members
    return found


def members_of(name, thing, signatures):
    """The public members that a class itself has."""
    for member, value in vars(thing).items():
        if member.startswith("_") or member == "results":
            continue
        doc = inspect.getdoc(value) or ""
        if member in signatures:
            signature = signatures[member]
        elif callable(value) or isinstance(value, classmethod):
            signature = member + str(inspect.signature(getattr(thing, member))).replace("(self, ", "(").replace("(self)", "()")
        else:
            continue
        if doc or member in signatures:
            yield {"name": member, "signature": signature, "doc": doc}


def entry(name, signatures):
    thing = getattr(tamis, name)
    doc = inspect.getdoc(thing) or ""
    if not inspect.isclass(thing):
        return {"name": name, "signature": f"tamis.{signatures[name]}", "doc": doc}
    own = signatures.get(name, {})
    if issubclass(thing, BaseException):
        signature = f"exception tamis.{name}({', '.join(base.__name__ for base in thing.__bases__)})"
    elif "__new__" in own:
        signature = f"tamis.{own['__new__']}"
    elif name == "Filter":
        signature = "tamis.Filter"
    else:
        signature = f"tamis.{name}{inspect.signature(thing)}".replace(" -> None", "")
    return {"name": name, "signature": signature, "doc": doc, "members": list(members_of(name, thing, own))}


def main(stub):
    signatures = in_stub(pathlib.Path(stub).read_text())
    entries = [entry(name, signatures) for name in sorted(tamis.__all__, key=lambda n: (n not in ("Bloom", "Cuckoo", "CountingBloom", "Filter"), n))]
    json.dump({"doc": inspect.getdoc(tamis), "entries": entries}, sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
