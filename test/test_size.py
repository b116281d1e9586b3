"""Modules and functions stay small: 600 lines a module (800 for tests), 70 lines a function."""
import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_module_sizes():
    bad = []
    for p in [*(ROOT / "morok").rglob("*.py"), *(ROOT / "test").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]:
        name = p.relative_to(ROOT).as_posix()
        limit = 800 if name.startswith("test/") else 600
        lines = len(p.read_text().splitlines())
        if lines > limit:
            bad.append(f"{name}: {lines} lines, limit {limit}")
    assert not bad, "\n".join(bad)


def test_function_sizes():
    bad = []
    for p in (ROOT / "morok").rglob("*.py"):
        for n in ast.walk(ast.parse(p.read_text())):
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.end_lineno - n.lineno + 1 > 70:
                bad.append(f"{p.relative_to(ROOT)}:{n.lineno} {n.name}: {n.end_lineno - n.lineno + 1} lines")
    assert not bad, "\n".join(bad)
