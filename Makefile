# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
STAMP := $(VENV)/installed

.PHONY: demo test slow fuzz lint clean

demo: $(STAMP)
	$(BIN)/python -m spacy project run demo project --force

test: $(STAMP)
	$(BIN)/python -m pytest

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz.py

lint: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

$(STAMP): setup.cfg setup.py pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python -c "open('$(STAMP)', 'w')"

clean:
	rm -rf $(VENV) build dist *.egg-info project/demo .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
