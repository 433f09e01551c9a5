# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
STAMP := $(VENV)/installed
DOCS_STAMP := $(VENV)/installed-docs
PIP_INSTALL := $(BIN)/python -m pip install --constraint constraints.txt --editable

.PHONY: demo test check slow browser docs fuzz model historical wheels bare lint clean

demo: $(STAMP)
	$(BIN)/python -m spacy project run demo project --force
	@echo "project/demo/senses.html is a page to look at, in any browser"

# A file of tests is one process's; WORKERS=0 is one process for all.
WORKERS ?= auto
test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile

# Before a commit: tests of no kind that takes long (tests/helpers/kinds.py gives the marks).
QUICK := not slow and not browser and not processes and not training \
	and not threads and not pipelines and not corpora and not commands and not large
check: lint
	$(BIN)/python -m pytest -m "$(QUICK)"

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

# Playwright brings no browser: without Chromium or Chrome they are skipped.
browser: $(STAMP)
	$(BIN)/python -m pytest -m browser

fuzz: $(STAMP)
	cd tests && $(CURDIR)/$(BIN)/python -m helpers.fuzz

# The bundled model, from english-open-train.txt.gz (CORPUS) and english-open-valid.txt (HELD_OUT);
# stopped, it goes on. MINUTES is the whole time on this machine.
MINUTES ?= 1530
MODEL := project/pretraining/en_small
model: $(STAMP)
	$(BIN)/python -m spacy elmo pretrain configs/pretraining/en_small.cfg --output $(MODEL) --resume \
		--paths.train "$(CORPUS)" --paths.dev "$(HELD_OUT)" --training.max_minutes $(MINUTES)
	printf '{"name": "en_small", "lang": "en", "commit": "%s", "licence": "%s"}' \
		"$$(git rev-parse HEAD)" "see en_small-ATTRIBUTION.md" > $(MODEL)/provenance.json
	$(BIN)/python -m spacy elmo convert $(MODEL)/model-best spacy_elmo/weights/en_small.safetensors \
		--dtype float16 --allow-loss --force --provenance $(MODEL)/provenance.json

# NER on OCR'd newspapers, with pretraining: docs/historical.md says which files to copy first.
historical: $(STAMP)
	$(BIN)/python -m pip install --constraint constraints.txt floret
	$(BIN)/python -m spacy project run historical project

# The pages under docs/ as a site: docs/_build/html/index.html.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --builder html docs docs/_build/html

# dist/: the package, the archive of its sources, and the model's own wheel.
wheels: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python wheels/en_small.py dist

# These wheels in a new environment, which runs README.md.
bare: wheels
	$(BIN)/python wheels/bare.py dist

lint: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

$(STAMP): pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) ".[dev]"
	$(BIN)/python -c "open('$(STAMP)', 'w')"

$(DOCS_STAMP): $(STAMP)
	$(PIP_INSTALL) ".[docs]"
	$(BIN)/python -c "open('$(DOCS_STAMP)', 'w')"

clean:
	rm -rf $(VENV) build dist docs/_build *.egg-info project/demo .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
