# SPDX-License-Identifier: MIT
"""What nginx says of a configuration, before anything runs by it."""
import os
import re
import subprocess

import server
from server import USER, found, same


def says(context, directives, sentence, files=None, user=None):
    """nginx -t refuses the directives with a sentence, names their line, and leaves no file behind."""
    nginx = context.nginx(http=directives, user=user)
    for name, content in (files or {}).items():
        nginx.path(name).write_bytes(content)
    before = sorted(path.name for path in nginx.folder.iterdir())
    status, said = nginx.test()
    same(status, 1, f"{directives}: {said}")
    line = next(number for number, text in enumerate(nginx.path("nginx.conf").read_text().split("\n"), 1)
                if directives.split("\n")[-1] in text)
    found(rf"\[emerg\] {sentence} in {re.escape(str(nginx.folder))}/nginx\.conf:{line}\n", said, directives)
    after = {path.name for path in nginx.folder.iterdir()} - {"nginx.conf", "nginx.pid", "out", "error.log"}
    same(sorted(after), sorted(set(before) - {"nginx.conf"}), f"{directives}: files")


def test_parameters(context):
    for words, sentence in {
        "a": r'invalid number of arguments in "tamis_filter" directive',
        "a b": 'tamis_filter "a": there is no "key"',
        "a b c": 'tamis_filter "a": unknown parameter "c"',
        "a b key": 'tamis_filter "a": unknown parameter "key"',
        "a b list=1": 'tamis_filter "a": unknown parameter "list=1"',
        "a b capacity=1": 'tamis_filter "a": there is no "key"',
        "a b key=$uri key=$uri": 'tamis_filter "a": there is more than one "key"',
        "a b key=$": 'invalid variable name',
        "a b key=": 'tamis_filter "a": a key has a variable, unlike ""',
        "a b key=token list": 'tamis_filter "a": a key has a variable, unlike "token"',
        "a b key=$tamis_first_a": r'tamis_filter "a": a key has variables of filters that stand above, unlike "\$tamis_first_a"',
        "a b key=x${TAMIS_seen_A}": r'tamis_filter "a": a key has variables .* unlike "x\${TAMIS_seen_A}"',
        "a b key=$tamis_seen_below list": r'tamis_filter "a": a key has variables .* unlike "\$tamis_seen_below"',
        "a-b b key=$uri": 'tamis_filter "a-b": a name has letters, digits and underscores, unlike "a-b"',
        "'' b key=$uri": 'tamis_filter "": a name has letters, digits and underscores, unlike ""',
        "a '' key=$uri": 'tamis_filter "a": a path is not empty and has no variables, unlike ""',
        "a $uri key=$uri": r'tamis_filter "a": a path is not empty and has no variables, unlike "\$uri"',
        "a b key=$uri list capacity=1": 'tamis_filter "a": a list has no "capacity"',
        "a b key=$uri on_error=first list": 'tamis_filter "a": a list has no "on_error"',
        "a b key=$uri fpp=0.1": 'tamis_filter "a": there is "fpp", which needs "capacity"',
        "a b key=$uri growable": 'tamis_filter "a": there is "growable", which needs "capacity"',
        "a b key=$uri max_bytes=1m": 'tamis_filter "a": there is "max_bytes", which needs "capacity"',
        "a b key=$uri window=4 period=1s": 'tamis_filter "a": there is "window", which needs "capacity"',
        "a b key=$uri capacity=1 window=4": 'tamis_filter "a": there is "window", which needs "period"',
        "a b key=$uri capacity=1 period=1s": 'tamis_filter "a": there is "period", which needs "window"',
        "a b key=$uri capacity=1 ttl=1": 'tamis_filter "a": there is "ttl", which needs "period"',
        "a b key=$uri ttl=1 list": 'tamis_filter "a": a list has no "ttl"',
        "a b key=$uri ttl=$tamis_seen_a": r'tamis_filter "a": there is "ttl", which needs "period"',
        "a b key=$uri period=1s ttl=$tamis_seen_a": r'tamis_filter "a": a ttl has variables of filters that stand above, unlike "\$tamis_seen_a"',
        "a b key=$uri capacity=1 renews": 'tamis_filter "a": there is "renews", which needs "window"',
    }.items():
        says(context, f"tamis_filter {words};", f"(?:{sentence})")
    found('unknown "nobody_has_this" variable',
          context.nginx(http="tamis_filter a b key=$nobody_has_this capacity=1;").test()[1])


def test_numbers(context):
    for parameter in ("capacity=", "capacity=x", "capacity=-1", "capacity=1.5m", "capacity=9223372036854775808",
                      "fpp=", "fpp=x", "fpp=0.1x", "fpp=0x1p-3", "fpp=nan", "fpp=inf", "fpp=1e", "max_bytes=1t",
                      "max_bytes=99999999999g", "window=0", "window=-1", "window=99999999999", "window=1k", "period=0",
                      "period=1x", "period=-1s", "period=500ms", "ttl=", "ttl=x", "ttl=-1", "on_error=", "on_error=none"):
        says(context, f"tamis_filter a b key=$uri {parameter};", f'tamis_filter "a": invalid parameter "{re.escape(parameter)}"')
    for words, sentence in {
        "capacity=0": "capacity is 0.*",
        "capacity=2000000g": "capacity is 2147483648000000.*",
        "capacity=1m fpp=0": "fpp is 0.*",
        "capacity=1m fpp=1": "fpp is 1.*",
        "capacity=1m fpp=1e-30": ".*fpp.*",
        "capacity=1m max_bytes=1k": ".*max_bytes is 1024.*",
        "capacity=1m growable": "max_bytes is not set; .*",
    }.items():
        says(context, f"tamis_filter a b key=$uri {words};", f'tamis_filter "a": {sentence}')


def test_names(context):
    twice = 'tamis_filter a x key=$uri capacity=1m;\n'
    says(context, twice + 'tamis_filter A y key=$uri capacity=1m;',
         r'tamis_filter "A": there is another filter with this name, whose file is "[^"]*/x"')
    says(context, twice + 'tamis_filter b x key=$uri capacity=2m;',
         'tamis_filter "b": its parameters are not those of the filter that has the same file, "a"')
    same(context.nginx(http=twice + 'tamis_filter b x key=$tamis_first_a capacity=1m;').test()[0], 0, "two keys for one file")
    # A file has many names, whether it is there or not; and files of one name are in several folders.
    nginx = context.nginx()
    nginx.path("here").mkdir()
    nginx.path("there").mkdir()
    nginx.path("link").symlink_to("here")
    for there in False, True:
        if there:
            nginx.http = "tamis_filter a here/x key=$uri capacity=1m window=2 period=1s;"
            nginx.start().stop()
            nginx.path("hard").hardlink_to(nginx.path("here/x"))
        for spelt in ["here/x", "here//x", "./here/x", "there/../here/x", nginx.path("here/x"), "link/x", *["hard"] * there]:
            nginx.http = f"tamis_filter a here/x key=$uri capacity=1m window=2 period=1s;\ntamis_filter b {spelt} key=$uri capacity=1m window=2 period=2s;"
            found('tamis_filter "b": its parameters are not those of the filter that has the same file, "a"', nginx.test()[1], spelt)
        for other in "there/x", "here/y":
            nginx.http = f"tamis_filter a here/x key=$uri capacity=1m window=2 period=1s;\ntamis_filter b {other} key=$uri capacity=2m;"
            same(nginx.test()[0], 0, other)
    # A list has no $tamis_first, and nobody changes what the variables are.
    nginx = context.nginx(http="tamis_filter a x key=$uri list;", server="location / { return 200 $tamis_first_a; }")
    context.build_list(["a"], nginx.path("x"))
    found('unknown "tamis_first_a" variable', nginx.test()[1])
    found('the duplicate "tamis_first_a" variable',
          context.nginx(http=twice, server="set $tamis_first_a 1;").test()[1])
    for above in "map $uri $tamis_seen_a {}\n", "server { set $tamis_seen_a 1; }\n":
        says(context, above + twice.strip(), 'tamis_filter "a": a directive above makes a variable "tamis_seen_a"')
    found(r'"tamis_filter" directive is not allowed here',
          context.nginx(server="tamis_filter a b key=$uri capacity=1m;").test()[1])


def test_files(context):
    """Files that cannot be what the directive says."""
    made = {"foreign": b"something else, but no filter\n" * 300}
    filter_of = "tamis_filter a {} key=$uri capacity=1m;".format
    says(context, filter_of("nowhere/b"), r'tamis_filter "a": \S*/nowhere/b cannot be created: No such file or directory')
    says(context, filter_of("foreign"), r'tamis_filter "a": \S*/foreign: is no filter, or damaged', made)
    says(context, filter_of("/dev/null"), r'tamis_filter "a": /dev/null cannot be opened: No such device')
    says(context, filter_of("/etc"), r'tamis_filter "a": /etc cannot be (opened|created): Is a directory')
    says(context, "tamis_filter a b key=$uri;", r'tamis_filter "a": \S*/b cannot be opened, and there are no options to create it with: No such file.*')
    list_of = "tamis_filter a {} key=$uri list;".format
    says(context, list_of("b"), r'tamis_filter "a": \S*/b cannot be mapped: input or output error \(2: No such file or directory\)')
    says(context, list_of("foreign"), r'tamis_filter "a": \S*/foreign cannot be mapped: .*', made)
    says(context, list_of("/etc"), r'tamis_filter "a": /etc cannot be mapped: .*')
    if os.geteuid() == 0:
        says(context, filter_of("/root/b"), r'tamis_filter "a": /root/b cannot be opened: Permission denied', user=USER)
        says(context, filter_of("/b"), r'tamis_filter "a": /b cannot be created: Permission denied', user=USER)
    path = context.new_folder() / "growing"
    subprocess.run([context.tool, "build", "--quiet", "--kind", "cuckoo", "-o", path, "-"], input=b"a\n", check=True)
    says(context, list_of(path), r'tamis_filter "a": \S* cannot be mapped: a cuckoo filter that grows and a window cannot be a list')
    says(context, filter_of(path), r'tamis_filter "a": \S*: is a saved filter, which processes do not share: load it, .*')


def test_contradictions(context):
    """A file that is there, and was created with other options."""
    nginx = context.nginx(http="tamis_filter a b key=$uri capacity=1m max_bytes=64m growable;").start()
    path = nginx.path("b")
    for words, sentence in {
        "capacity=2m max_bytes=64m growable": "capacity is 2097152; the filter in the file has 1048576",
        "capacity=1m max_bytes=63m growable": "max_bytes is 66060288; the filter in the file has 67108864",
        "capacity=1m": "growable is false; the filter in the file has true",
        "capacity=1m max_bytes=64m growable fpp=0.1": "fpp is 0.1; the filter in the file has 0.01",
    }.items():
        says(context, f"tamis_filter a {path} key=$uri {words};", f'tamis_filter "a": {sentence}')
    same(context.nginx(http=f"tamis_filter a {path} key=$uri;").test()[0], 0, "what the file says is taken")
    # A reload that contradicts it changes nothing.
    workers = set(nginx.all_workers())
    nginx.http = "tamis_filter a b key=$uri capacity=3m;"
    nginx.write_config()
    nginx.signal(server.signal.SIGHUP)
    server.wait_until(lambda: "capacity is 3145728" in nginx.log(), "the reload is refused")
    same(set(nginx.all_workers()), workers, "workers")


def test_windows(context):
    window_of = "tamis_filter a {} key=$uri capacity=1m window=4 period=1h {};".format
    for words, sentence in {"growable max_bytes=1g": ".*grow.*", "max_bytes=1m": ".*max_bytes is 1048576.*"}.items():
        says(context, window_of("b", words), f'tamis_filter "a": {sentence}')
    says(context, window_of("b", "").replace("=4", "=65"), 'tamis_filter "a": .*window.*')
    nginx = context.start(http=window_of("b", "renews") + "tamis_filter c c key=$uri capacity=1m;")
    for words, sentence in {
        f"{nginx.path('b')} key=$uri": 'the filter in the file has a window, which needs "period"',
        f"{nginx.path('c')} key=$uri period=1h": "the filter in the file has no window",
        f"{nginx.path('b')} key=$uri capacity=1m": "window is 0; the filter in the file has 4",
        f"{nginx.path('b')} key=$uri capacity=1m window=5 period=1h": "window is 5; the filter in the file has 4",
        f"{nginx.path('b')} key=$uri capacity=1m window=4 period=1h": "window_renews is false; the filter in the file has true",
    }.items():
        says(context, f"tamis_filter a {words};", f'tamis_filter "a": {sentence}')
    same(context.nginx(http=f"tamis_filter a {nginx.path('b')} key=$uri period=1h;").test()[0], 0, "what the file says is taken")
    for ttl, warned in ("4h", False), ("14401", True), ("$arg_ttl", False):
        for directive in f"{nginx.path('b')} key=$uri period=1h", "d key=$uri capacity=1m window=4 period=1h":
            status, said = context.nginx(http=f"tamis_filter a {directive} ttl={ttl};").test()
            same((status, len(re.findall('"a": "ttl" is longer than the window, which holds', said))), (0, warned), f"{directive}, {ttl}")


def test_nothing_is_created(context):
    """A test of the configuration, an order to a master, and a configuration that is wrong at its end create no
    file.  An order needs no filter either."""
    nginx = context.nginx(http="tamis_filter a b key=$uri capacity=1m;")
    same(nginx.test()[0], 0, "the test")
    same(nginx.path("b").exists(), False, "after nginx -t")
    found("invalid PID|No such file", nginx.run("-s", "reload")[1])
    same(nginx.path("b").exists(), False, "after nginx -s")
    nginx.server = "no_such_directive on;"
    nginx.write_config()
    same(nginx.run()[0], 1, "a wrong configuration")
    same(nginx.path("b").exists(), False, "after a wrong configuration")
    nginx.server = ""
    nginx.start()
    same(nginx.path("b").stat().st_mode & 0o777, 0o600, "the mode")
    nginx.http = "tamis_filter a b key=$uri capacity=2m;"
    nginx.write_config()
    same(nginx.run("-s", "stop")[0], 0, "an order by a file that contradicts the filter")


def test_a_full_disk(on_small_disk):
    """The file cannot be created: nginx does not start, and says why."""
    nginx = on_small_disk("200k", "tamis_filter a disk/b key=$uri capacity=1m;")
    status, said = nginx.run()
    same(status, 1, said)
    found(r'tamis_filter "a": \S*/disk/b cannot be written: No space left on device', said)
