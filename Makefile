# Each target makes what it needs: a virtual environment in .venv, installed once and then reused
# until pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test test-fast lint bench clean

demo: $(READY)  ## the main thing, in a few minutes
	$(BIN)/maskless demo

test: $(READY)  ## all tests
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile $(PYTEST)

test-fast: $(READY)  ## the inner loop: all but the slow ones
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile -m "not slow" $(PYTEST)

lint: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## speed, as ratios measured in one run
	$(BIN)/python benchmarks/envs.py
	$(BIN)/python benchmarks/corridor.py
	$(BIN)/python benchmarks/diagnostics.py
	$(BIN)/python benchmarks/act.py
	$(BIN)/maskless bench --suite cpu

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,minihack]'
	touch $(READY)

clean:  ## forget the virtual environment and all results that were not committed
	rm -rf .venv runs .jax_cache
