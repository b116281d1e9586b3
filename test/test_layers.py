"""Imports point one way only: each layer to those before it, siblings never to each other, no cycles inside a package."""
import ast
import graphlib
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1] / "morok"
LAYERS = [*"errors helpers knobs dtype variable target program profile database uop".split(), "schedule optimizer codegen runtime ops", "compiler", "roofline tune", "plan", "realize", "prepare", "tensor", "jit cli", "__main__",
          "__init__"]
RANK = {name: i for i, row in enumerate(LAYERS) for name in row.split()}


def modules(root):
    def name(p):
        return ".".join(p.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    return {name(p): p for p in root.rglob("*.py")}


def imports(name, path, mods):
    """(module, line) of every import of our own modules, those inside functions too; imports for types only do not count."""
    pkg = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    tree = ast.parse(path.read_text())
    typing_only = {id(c) for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test) for s in n.body for c in ast.walk(s)}
    for n in ast.walk(tree):
        if id(n) in typing_only or not isinstance(n, (ast.Import, ast.ImportFrom)):
            continue
        if isinstance(n, ast.Import):
            full = [a.name for a in n.names]
        else:
            base = (pkg[:len(pkg) - n.level + 1] if n.level else []) + (n.module.split(".") if n.module else [])
            full = [".".join([*base, a.name]) for a in n.names]
        for f in full:
            while f and f not in mods:
                f = f.rpartition(".")[0]
            if f and f != name:
                yield f, n.lineno


def graph(root=ROOT):
    mods = modules(root)
    return {m: list(imports(m, p, mods)) for m, p in mods.items()}


def unit(module):
    return (module.split(".") + ["__init__"])[1]


def test_layers():
    bad = [f"{m}:{line} must not import {t}" for m, ts in graph().items() for t, line in ts
           if unit(t) != unit(m) and t != "morok" and RANK[unit(t)] >= RANK[unit(m)]]
    assert not bad, "\n".join(bad)


def test_no_cycles():
    graphlib.TopologicalSorter({m: [t for t, _ in ts if t != "morok"] for m, ts in graph().items()}).prepare()


def test_a_planted_upward_import_is_seen(tmp_path):
    pkg = tmp_path / "morok"
    (pkg / "uop").mkdir(parents=True)
    (pkg / "__init__.py").write_text("")
    (pkg / "uop" / "__init__.py").write_text("def f():\n    from ..tensor import Tensor\n")
    (pkg / "tensor.py").write_text("")
    found = graph(pkg)
    assert ("morok.tensor", 2) in found["morok.uop"] and RANK["tensor"] > RANK["uop"]
