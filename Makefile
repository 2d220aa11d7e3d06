# Every task of a developer; needs Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
MARKED := slow or cluster or benchmark or browser

# Tests start many processes: what they import is compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-marked test-oldest test-pythons audit lint types wheel docs bench fuzz reproduce clean

# What the demo and the tests need. Only what is imported is compiled to bytecode: that is faster.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[test]"
	touch $(READY)

$(TOOLS): $(READY)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev]"
	touch $(TOOLS)

demo: $(READY)  ## learn a field over scikit-learn's digits, predict missing pixels, write pictures to demo/
	$(BIN)/python examples/digits.py demo

# The longest file comes first, or one worker would end with it alone.
test: $(READY)  ## run the tests that take minutes together
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not ($(MARKED))" tests/test_docs.py tests fuzz/tests --ignore=tests/app/browser

test-all: $(TOOLS)  ## run every test, also those of benchmarks, study and fuzzing, with three times as many random examples
	HYPOTHESIS_PROFILE=suite $(BIN)/python -m pytest -n auto

test-marked: $(TOOLS)  ## run the tests that `make test` leaves out
	$(BIN)/python -m pytest -n auto -m "$(MARKED)"

test-oldest:  ## run tests with the oldest packages that pyproject.toml permits
	$(PYTHON) tests/other_versions.py oldest

test-pythons:  ## run tests with each newer Python that is here, also one of pyenv
	$(PYTHON) tests/other_versions.py pythons

audit: $(TOOLS)  ## look for known vulnerabilities of the installed packages; AUDIT=--may-be-offline succeeds if nobody can be asked
	$(BIN)/python tests/package_audit.py $(AUDIT)

lint: $(TOOLS)
	$(BIN)/ruff check conftest.py src tests benchmarks fuzz reproduction examples docs
	$(BIN)/ruff format --check conftest.py src tests benchmarks fuzz reproduction examples docs/*.py

types: $(TOOLS)
	$(BIN)/pyright --pythonpath $(BIN)/python

wheel: $(TOOLS)  ## build a wheel and run the demo from it in a fresh environment
	rm -rf dist build/smoke
	$(BIN)/python -m build --wheel --quiet
	$(PYTHON) -m venv build/smoke
	build/smoke/bin/python -m pip install --quiet dist/*.whl
	cd build && smoke/bin/sparsefield --version && smoke/bin/python ../examples/digits.py smoke-demo --quick

docs: $(TOOLS)  ## build the documentation site into build/docs, with the tutorials as notebooks; a warning is an error
	$(BIN)/python -m sphinx -b html -E -a --fail-on-warning --keep-going --quiet -d build/docs-trees docs build/docs
	mkdir -p build/docs/notebooks
	for page in labels linked-tables network survey; do \
		$(BIN)/python -m jupytext --quiet --from md --to ipynb -o build/docs/notebooks/$$page.ipynb docs/tutorials/$$page.md || exit 1; \
	done

bench: $(READY)  ## run all benchmarks, the long ones shortened; takes minutes, writes charts to results/benchmarks/
	$(BIN)/python -m pip install --quiet -e ".[bench,cluster]"
	$(BIN)/python -m benchmarks peers --short
	$(BIN)/python -m benchmarks scale --short
	$(BIN)/python -m benchmarks paper --short
	$(BIN)/python -m benchmarks startup --short
	$(BIN)/python -m benchmarks fill
	$(BIN)/python -m benchmarks missing --quick
	$(BIN)/python -m benchmarks heldout
	$(BIN)/python -m benchmarks ablations
	$(BIN)/python -m benchmarks network
	$(BIN)/python -m benchmarks sequences
	$(BIN)/python -m benchmarks denoising
	$(BIN)/python -m benchmarks likelihood
	$(BIN)/python -m benchmarks inference
	$(BIN)/python -m benchmarks latent
	$(BIN)/python -m benchmarks comparison
	$(BIN)/python -m benchmarks selection --nodes 100
	$(BIN)/python -m benchmarks cluster
	$(BIN)/python -m benchmarks dependent --short
	$(BIN)/python -m benchmarks cores --short

fuzz: $(READY)  ## feed odd and damaged input for FUZZ_MINUTES=5, with FUZZ_SEED=0; continues where the last run ended
	$(BIN)/python -m fuzz run --minutes $(or $(FUZZ_MINUTES),5) --seed $(or $(FUZZ_SEED),0)

reproduce: $(READY)  ## the paper's table, figures and claims; takes hours, and continues where it was interrupted
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python -m reproduction table1 --output results/table1
	$(BIN)/python -m reproduction figures --output results/study
	$(BIN)/python -m reproduction claims --output results/study
	$(BIN)/python -m reproduction printed --folds-run 1 --output results/study
	$(BIN)/python -m reproduction printed --data animals --data nations --output results/study
	$(BIN)/python -m reproduction claims --as-printed --folds-run 1 --output results/study
	$(BIN)/python -m reproduction claims --as-printed --claim 11 --claim 12 --seeds 1 --output results/study

clean:
	rm -rf $(VENV) build dist demo results
