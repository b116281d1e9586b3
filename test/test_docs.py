"""Documents say what is there: a caption for every module, docs/map.md made from them, a docstring for every public name."""
import ast
import inspect
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAP = ROOT / "docs" / "map.md"
ORDER = ["", "ops", "uop", "schedule", "optimizer", "codegen", "runtime"]


def caption(path):
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return doc.strip().split("\n")[0]


def make_map():
    """The text of docs/map.md: every module in one sentence, folders in the order that a program runs through them."""
    out = ["# Map", "", "Every module in one sentence, from the first lines of the files (`make map` writes this page).", ""]
    for folder in ORDER:
        base = ROOT / "morok" / folder
        out += [f"## morok/{folder}".rstrip("/"), "", "| file | what it is |", "|---|---|"]
        out += [f"| `{p.name}` | {caption(p)} |" for p in sorted(base.glob("*.py"))] + [""]
    return "\n".join(out)


def test_every_module_has_a_caption():
    bad = [str(p) for d in ("morok", "test", "benchmarks", "examples") for p in (ROOT / d).rglob("*.py") if p.read_text().strip() and not caption(p)]
    assert not bad, bad


def test_the_map_is_current():
    assert MAP.read_text() == make_map(), "docs/map.md is out of date: run `make map`"


def test_public_names_have_docstrings():
    import morok
    bad = [n for n in morok.__all__ if not inspect.getdoc(getattr(morok, n))]
    own = [n for n in dir(morok.Tensor) if not n.startswith("_") and callable(getattr(morok.Tensor, n))]
    bad += [f"Tensor.{n}" for n in own if not getattr(getattr(morok.Tensor, n), "__doc__", None)]
    assert not bad, bad


def test_the_readme_names_commands_that_exist():
    text, make = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "check", "bench"):
        assert f"make {target}" in text and f"\n{target}:" in make


if __name__ == "__main__":
    MAP.write_text(make_map())
