# Each target makes its own virtual environment and installs what it needs from the package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test slow check bench ulp map clean

$(VENV)/made:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "morok needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/examples: $(VENV)/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[examples]'
	@touch $@

$(VENV)/test: $(VENV)/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,examples]'
	@touch $@

$(VENV)/bench: $(VENV)/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

demo: $(VENV)/examples            ## classify real handwritten digits, with accuracy and times
	$(BIN)/python examples/digits.py

test: $(VENV)/test                ## the fast tests, under 8 minutes on two cores
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not timing"
	$(BIN)/python -m pytest -m timing

slow: $(VENV)/test                ## the tests that take minutes
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

check: $(VENV)/test               ## style, types, layers, sizes
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest test/test_layers.py test/test_size.py test/test_docs.py test/test_api.py

bench: $(VENV)/bench              ## Morok beside NumPy, PyTorch and JAX
	$(BIN)/python benchmarks/compile_time.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/threads.py
	$(BIN)/python benchmarks/run.py

ulp: $(VENV)/test                 ## accuracy of the math functions over ten million inputs each
	$(BIN)/python benchmarks/ulp.py

map: $(VENV)/test                 ## write docs/map.md anew from the modules' first lines
	$(BIN)/python test/test_docs.py

clean:
	rm -rf $(VENV) build *.egg-info
