"""Environment variables: values, aliases, scopes, and that each is declared once and read somewhere."""
import pathlib
import re
import threading

import pytest

from morok import KnobError, knobs
from morok.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2] / "morok"


@pytest.mark.parametrize("text, value", [("1", 1), ("0", 0), ("true", 1), ("No", 0), ("", 0), (" on ", 1)])
def test_bool(monkeypatch, text, value):
    monkeypatch.setenv("MOROK_NOOPT", text)
    assert knobs.MOROK_NOOPT.get() == value


def test_default_without_the_variable(monkeypatch):
    for k in knobs.ALL:
        for name in k.names:
            monkeypatch.delenv(name, raising=False)
    with knobs.scope(SPEC=0):
        assert [k.get() for k in knobs.ALL] == [k.default for k in knobs.ALL]


def test_the_first_name_wins(monkeypatch):
    monkeypatch.delenv("MOROK_NOOPT", raising=False)
    monkeypatch.setenv("NOOPT", "1")
    assert knobs.MOROK_NOOPT.get() == 1
    monkeypatch.setenv("MOROK_NOOPT", "0")
    assert knobs.MOROK_NOOPT.get() == 0


@pytest.mark.parametrize("name, text, allowed", [("MOROK_NOOPT", "maybe", "1 or 0"), ("MOROK_THREADS", "-1", "0 or more"), ("MOROK_THREADS", "two", "whole number"),
                                                 ("MOROK_CACHE_LIMIT", "1GB", "whole number"), ("DEBUG", "x@y", "level"), ("DEBUG", "-2", "level")])
def test_malformed(monkeypatch, name, text, allowed):
    monkeypatch.setenv(name, text)
    with pytest.raises(KnobError) as e:
        getattr(knobs, name).get()
    assert all(part in str(e.value) for part in (name, repr(text), allowed))


@pytest.mark.parametrize("text, levels", [("2", (2, 2, 2)), ("3@r_", (3, 3, 0)), ("1@", (1, 1, 1)), ("0", (0, 0, 0)), ("2@e_4", (2, 0, 2))])
def test_debug_filter(monkeypatch, text, levels):
    monkeypatch.setenv("DEBUG", text)
    assert (knobs.debug(), knobs.debug("r_3_4"), knobs.debug("e_4")) == levels


def test_scope_wins_nests_and_ends(monkeypatch):
    monkeypatch.setenv("MOROK_THREADS", "3")
    with knobs.scope(MOROK_THREADS=4, NOOPT=True):
        assert (knobs.MOROK_THREADS.get(), knobs.MOROK_NOOPT.get()) == (4, 1)
        with pytest.raises(RuntimeError), knobs.scope(MOROK_THREADS=5):
            assert (knobs.MOROK_THREADS.get(), knobs.MOROK_NOOPT.get()) == (5, 1)
            raise RuntimeError
        assert knobs.MOROK_THREADS.get() == 4
    assert knobs.MOROK_THREADS.get() == 3


def test_scope_is_of_one_thread(monkeypatch):
    monkeypatch.setenv("MOROK_THREADS", "3")
    seen = []
    with knobs.scope(MOROK_THREADS=4):
        t = threading.Thread(target=lambda: seen.append(knobs.MOROK_THREADS.get()))
        t.start()
        t.join()
    assert seen == [3]


def test_scope_refuses_what_the_environment_would():
    for values in ({"NOPE": 1}, {"MOROK_NOOPT": "maybe"}, {"MOROK_THREADS": -1}):
        with pytest.raises(KnobError, match=next(iter(values))), knobs.scope(**values):
            pass


def test_every_knob_is_in_the_table_and_read():
    assert {id(v) for v in vars(knobs).values() if isinstance(v, knobs.Knob)} == {id(k) for k in knobs.ALL}
    code = "".join(p.read_text() for p in ROOT.rglob("*.py") if p.name not in ("knobs.py", "cli.py"))
    for k in knobs.ALL:
        assert f"knobs.{k.names[0]}.get()" in code or (k is knobs.DEBUG and "knobs.debug(" in code), f"{k.names[0]} is read nowhere"


def test_the_environment_is_read_here_only():
    bad = [p.name for p in ROOT.rglob("*.py") if p.name != "knobs.py" and re.search(r"os\.(environ|getenv)", p.read_text())]
    assert not bad


def test_env_command(capsys):
    assert main(["env"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(knobs.ALL)
    for k, line in zip(knobs.ALL, lines, strict=True):
        assert all(part in line for part in (*k.names, repr(k.default), k.help)) and ("changes generated code" in line) == k.in_cache_key


def test_unknown_command(capsys):
    assert main(["nonsense"]) == 2 and "usage" in capsys.readouterr().err
