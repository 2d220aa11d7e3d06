# Everything a newcomer needs. Only Python 3.11+, git and make are taken for granted.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types wheel docs bench reproduce clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $(READY)

demo: $(READY)  ## learn a field over scikit-learn's digits, fill in hidden pixels, write pictures to demo/
	$(BIN)/sparsefield demo --out demo

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest -n auto

lint: $(READY)
	$(BIN)/ruff check src tests docs
	$(BIN)/ruff format --check src tests docs/*.py

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

wheel: $(READY)  ## build a wheel and try it in an environment of its own
	rm -rf dist build/smoke
	$(BIN)/python -m build --wheel --quiet
	$(PYTHON) -m venv build/smoke
	build/smoke/bin/python -m pip install --quiet dist/*.whl
	cd build && smoke/bin/sparsefield --version && smoke/bin/sparsefield demo --out smoke-demo --quick

docs: $(READY)  ## build the documentation site into build/docs; a warning is an error
	$(BIN)/python -m sphinx -b html -E -a --fail-on-warning --keep-going --quiet -d build/docs-trees docs build/docs

bench: $(READY)  ## benchmarks, the long ones cut short; takes minutes, writes pictures to bench/
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python -m benchmarks peers --short
	$(BIN)/python -m benchmarks scale --short
	$(BIN)/python -m benchmarks paper --short
	$(BIN)/python -m benchmarks startup --short
	$(BIN)/python -m benchmarks kernels --short
	$(BIN)/python -m benchmarks impute
	$(BIN)/python -m benchmarks heldout
	$(BIN)/python -m benchmarks ablations
	$(BIN)/python -m benchmarks network
	$(BIN)/python -m benchmarks sequences
	$(BIN)/python -m benchmarks denoising
	$(BIN)/python -m benchmarks inference
	$(BIN)/python -m benchmarks hidden
	$(BIN)/python -m benchmarks choosing --nodes 100
	$(BIN)/python -m benchmarks cluster

reproduce: $(READY)  ## the paper's table, figures and claims; takes hours, and goes on where it was interrupted
	$(BIN)/python -m reproduction table1 --output table1
	$(BIN)/python -m reproduction figures --output reproduction
	$(BIN)/python -m reproduction claims --output reproduction

clean:
	rm -rf $(VENV) build dist demo bench table1 reproduction quick-reproduction
