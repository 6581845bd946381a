# Needs only python3 (with venv and pip) and make. `make PYTHON=python3.13 setup` picks another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: setup demo test wheel lint format docs bench bench-disk coverage reproduction comparison clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/multireplay demo --out out

test: setup
	$(BIN)/python -m pytest -n auto --dist worksteal

wheel: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python .ci/wheel.py dist

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	$(BIN)/mkdocs build --strict

bench: setup
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python docs/build_readme.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/sparse.py
	$(BIN)/python benchmarks/wide.py
	$(BIN)/python benchmarks/partial_fit.py
	$(BIN)/python docs/build_speed.py

bench-disk: setup
	$(BIN)/python benchmarks/out_of_core.py --gigabytes 8 --repeats 1

coverage: setup
	$(BIN)/python benchmarks/coverage.py
	$(BIN)/python docs/build_inference.py
	$(BIN)/python docs/build_readme.py

reproduction: setup
	$(BIN)/multireplay reproduce all --out out/paper
	$(BIN)/python docs/build_reproduction.py out/paper

comparison: setup
	$(BIN)/multireplay compare --out out/compare
	$(BIN)/python docs/build_comparison.py out/compare

clean:
	rm -rf $(VENV) out site build dist .pytest_cache .mypy_cache .ruff_cache .numba_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
