"""Compiled kernels on disk: a second process compiles nothing, many at once and killed ones do no harm, and the command line looks after them."""
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from morok import knobs
from morok.cli import COMMANDS, main
from morok.database import Database, key_of, unpack

NAMES = [name for k in knobs.ALL for name in k.names]            # of the caller's environment nothing of ours is passed on


def start(code, folder, *args, **settings):
    env = {k: v for k, v in os.environ.items() if k not in NAMES} | {"MOROK_CACHE_DIR": str(folder), "MOROK_THREADS": "2"} | settings
    return subprocess.Popen([sys.executable, *(["-c", code] if code else ["-m", "morok"]), *map(str, args)], env=env, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process):
    """What a process printed, which must end well and without a word on stderr."""
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    return out


def sound(folder):
    """Names of all records, each of which has to be sound."""
    found = [path for path, _, _ in Database(folder, 1 << 30).records()]
    for path in found:
        assert unpack(path.read_bytes(), path.name.split(".")[0]) is not None, path
    return {path.name for path in found}


# ---- one process after another -------------------------------------------------------------------------------

PROGRAM = """
import json, sys
import numpy as np
from morok import Tensor, compiler
a, big = np.load(sys.argv[1]).values()
Tensor.manual_seed(5)
made = {"matmul": Tensor(a) @ Tensor(a).T, "softmax": Tensor(a).softmax(), "threaded": Tensor(big) * 2 + 1, "rand": Tensor.rand(1000)}
np.savez(sys.argv[2], **{k: v.numpy() for k, v in made.items()})
programs = [k.program for k in compiler._kernels.values()]
facts = [(p.entry, list(map(str, p.opts)), p.chunks, p.scratch, p.nargs, p.flops, p.bytes, p.name) for p in programs]
print(json.dumps([compiler.counters, facts]))
"""
A, BIG = np.random.default_rng(1).standard_normal((48, 64), np.float32), np.arange(300_000, dtype=np.float32)
E = np.exp(A.astype(np.float64))
WANT = {"matmul": A.astype(np.float64) @ A.T.astype(np.float64), "softmax": E / E.sum(-1, keepdims=True), "threaded": BIG * 2.0 + 1}


class Result(NamedTuple):
    compiled: int
    loaded: int
    facts: list
    values: dict
    text: str


def run(folder, tmp_path, **settings):
    """Run PROGRAM; its values are right."""
    np.savez(tmp_path / "in.npz", A, BIG)
    text = finish(start(PROGRAM, folder, tmp_path / "in.npz", tmp_path / "out.npz", **settings))
    counters, facts = json.loads(text.splitlines()[-1])
    values = dict(np.load(tmp_path / "out.npz"))
    for k, want in WANT.items():
        np.testing.assert_allclose(values[k], want, rtol=1e-5, atol=1e-5, err_msg=k)
    assert len(set(values["rand"])) > 990 and 0.4 < values["rand"].mean() < 0.6
    return Result(counters["compiled"], counters["loaded"], facts, values, text)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A folder that one process has filled, and what that gave."""
    tmp = tmp_path_factory.mktemp("first")
    return tmp / "cache", run(tmp / "cache", tmp)


def test_a_second_process_compiles_nothing(first, tmp_path):
    folder, one = first
    two = run(folder, tmp_path)
    assert one.compiled >= 4 and one.loaded == 0 and (two.compiled, two.loaded) == (0, one.compiled)
    assert two.facts == one.facts and any(chunks > 1 for _, _, chunks, *_ in two.facts) and any(opts for _, opts, *_ in two.facts)
    for k, v in one.values.items():
        np.testing.assert_array_equal(two.values[k], v, err_msg=k)


@pytest.mark.parametrize("setting", [{"MOROK_THREADS": "3"}, {"MOROK_NOOPT": "1"}], ids=["threads", "noopt"])
def test_what_changes_the_code_changes_the_records(first, tmp_path, setting):
    folder, one = first
    before = sound(folder)
    other = run(folder, tmp_path, **setting)
    assert (other.compiled, other.loaded) == (one.compiled, 0)
    assert any(opts for _, opts, *_ in other.facts) == ("MOROK_NOOPT" not in setting)
    assert len({n for n in sound(folder) - before if n.endswith(".kernel")}) == one.compiled


def test_source_is_shown_although_the_kernel_is_on_disk(first, tmp_path):
    folder, one = first
    shown = run(folder, tmp_path, DEBUG="2")
    assert all(f"define void @{entry}(" in shown.text and entry + "(" not in one.text for entry, *_ in one.facts)
    assert shown.loaded == 0 and all(f in shown.facts for f in one.facts)


def test_damaged_records_are_made_anew(first, tmp_path):
    folder, one = shutil.copytree(first[0], tmp_path / "cache"), first[1]
    for path, _, _ in Database(folder, 1 << 30).records():
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert (again := run(folder, tmp_path)).compiled == one.compiled and again.facts == one.facts
    made = [path for path, kind, _ in Database(folder, 1 << 30).records() if kind == "kernel" and unpack(path.read_bytes(), path.name[:64]) is not None]
    assert len(made) == one.compiled                             # those of other settings stay damaged, as nobody read them


def test_limit_0_and_a_folder_that_cannot_be_written_to(tmp_path):
    assert run(tmp_path / "off", tmp_path, MOROK_DISK_LIMIT="0").compiled and not (tmp_path / "off").exists()
    (tmp_path / "file").write_text("")
    p = start(PROGRAM, tmp_path / "file", tmp_path / "in.npz", tmp_path / "out.npz")
    assert p.communicate()[1].count("RuntimeWarning: the cache of compiled kernels in") == 1 and p.returncode == 0


# ---- many processes at once ----------------------------------------------------------------------------------

SHAPES = range(2, 52)
MANY = """
import json, os, signal, sys, threading
import numpy as np
from morok import Tensor, compiler
print("ready", flush=True)
sys.stdin.readline()
KILL
values = {n: float((Tensor(np.arange(n, dtype=np.float32)) + 1).sum().numpy()) for n in range(2, 52)[::int(sys.argv[1])]}
print(json.dumps([compiler.counters, values]))
"""


def at_once(folder, *kills):
    """Processes that make the same 50 kernels from the same moment on, some up and some down; kills: for each, a statement that it runs before."""
    processes = [start(MANY.replace("KILL", k), folder, -1 if i % 2 else 1) for i, k in enumerate(kills)]
    for p in processes:
        assert p.stdout.readline() == "ready\n"
    for p in processes:
        p.stdin.write("\n")
        p.stdin.flush()
    return processes


def counted(process):
    """Kernels that a process compiled and loaded, with right values."""
    counters, values = json.loads(finish(process))
    assert values == {str(n): float((np.arange(n) + 1.0).sum()) for n in SHAPES}
    return counters["compiled"], counters["loaded"]


def test_eight_processes_at_once_and_a_ninth(tmp_path):
    counts = [counted(p) for p in at_once(tmp_path, *[""] * 8)]
    assert all(sum(c) == len(SHAPES) for c in counts)
    assert len([n for n in sound(tmp_path) if n.endswith(".kernel")]) == len(SHAPES)
    assert counted(*at_once(tmp_path, "")) == (0, len(SHAPES))


# as a record is about to get its name, and at any moment after so many kernels
IN_A_WRITE = """replace, left = os.replace, iter(range(20))
os.replace = lambda *a: replace(*a) if next(left, None) is not None else os.kill(os.getpid(), signal.SIGKILL)"""
AT_ANY_TIME = """def kill():
    while compiler.counters["compiled"] < 10: pass
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill).start()"""


def test_killed_processes_leave_sound_records(tmp_path):
    for p in at_once(tmp_path, IN_A_WRITE, AT_ANY_TIME):
        out, err = p.communicate()
        assert (p.returncode, out, err) == (-signal.SIGKILL, "", "")
    left = [n for n in sound(tmp_path) if n.endswith(".kernel")]
    assert 10 <= len(left) < len(SHAPES) and list(tmp_path.rglob(".new-*"))
    assert counted(*at_once(tmp_path, "")) == (len(SHAPES) - len(left), len(left))
    assert len([n for n in sound(tmp_path) if n.endswith(".kernel")]) == len(SHAPES)


# ---- the command line ----------------------------------------------------------------------------------------

@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MOROK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MOROK_DISK_LIMIT", "123456")
    d = Database(tmp_path / "cache", 123456)
    for i in range(3):
        d.put("kernel", key_of(i), b"x" * 53)                    # 100 bytes as a file
    d.put("object", key_of(0), b"")
    return d


def test_info_and_clear(cache, capsys):
    assert main(["cache", "info"]) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert rows == [["folder", str(cache.folder)], ["limit", "123456 bytes"], ["kernel", "3 records, 300 bytes"], ["object", "1 records, 47 bytes"]]
    assert main(["cache", "clear"]) == 0 and capsys.readouterr().out == "4 records deleted\n" and cache.info() == {}
    assert main(["cache", "clear"]) == 0 and capsys.readouterr().out == "0 records deleted\n"


def test_info_without_a_cache(cache, capsys, monkeypatch):
    monkeypatch.setenv("MOROK_DISK_LIMIT", "0")
    assert main(["cache", "info"]) == 0 and "limit    0 bytes: it is not used" in capsys.readouterr().out


def test_export_and_import(cache, capsys, monkeypatch, tmp_path):
    file = str(tmp_path / "file")
    cache.path("kernel", key_of(1)).write_bytes(b"damaged")
    assert main(["cache", "export", file]) == 0 and capsys.readouterr().out == "3 records exported\n"
    monkeypatch.setenv("MOROK_CACHE_DIR", str(tmp_path / "other"))
    assert main(["cache", "import", file]) == 0 and capsys.readouterr().out == "3 records imported, 0 skipped\n"
    assert sound(tmp_path / "other") == sound(cache.folder)
    monkeypatch.setenv("MOROK_DISK_LIMIT", "99")
    assert main(["cache", "import", file]) == 0 and capsys.readouterr().out == "1 records imported, 2 skipped\n"


def test_an_exported_cache_serves_another_folder(first, tmp_path):
    folder, one = first
    assert finish(start(None, folder, "cache", "export", tmp_path / "file")).endswith("records exported\n")
    with knobs.scope(MOROK_CACHE_DIR=str(tmp_path / "other")):
        assert main(["cache", "import", str(tmp_path / "file")]) == 0
    assert run(tmp_path / "other", tmp_path)[:2] == (0, one.compiled)


@pytest.mark.parametrize("words, message", [(["import", "missing"], "missing"), (["import", "text"], "text cannot be read as an exported cache"),
                                            (["export", "no/such/folder"], "no/such/folder")])
def test_what_fails_is_told_with_status_1(cache, capsys, monkeypatch, tmp_path, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no archive")
    assert main(["cache", *words]) == 1
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("\n") == 1 and sum(n for n, _ in cache.info().values()) == 4


def test_a_malformed_limit_is_told_with_status_1(cache, capsys, monkeypatch):
    monkeypatch.setenv("MOROK_DISK_LIMIT", "1GB")
    assert main(["cache", "info"]) == 1 and "MOROK_DISK_LIMIT='1GB'" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["", "cache", "cache drop", "cache import", "cache import a b", "cache clear all", "env x", "caches info"])
def test_usage_with_status_2(cache, capsys, line):
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and all(" ".join(c.words + c.takes) in err and c.help in err for c in COMMANDS) and sum(n for n, _ in cache.info().values()) == 4
