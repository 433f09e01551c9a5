# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
STAMP := $(VENV)/installed

.PHONY: demo test slow fuzz model lint clean

demo: $(STAMP)
	$(BIN)/python -m spacy project run demo project --force

test: $(STAMP)
	$(BIN)/python -m pytest

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

fuzz: $(STAMP)
	$(BIN)/python tests/helpers/fuzz.py

# The bundled model, from english-open-train.txt.gz (CORPUS) and english-open-valid.txt (HELD_OUT);
# stopped, it goes on. MINUTES is the whole time on this machine.
MINUTES ?= 118.5
MODEL := project/pretraining/en_small
model: $(STAMP)
	$(BIN)/python -m spacy elmo pretrain configs/pretraining/en_small.cfg --output $(MODEL) --resume \
		--paths.train "$(CORPUS)" --paths.dev "$(HELD_OUT)" --training.max_minutes $(MINUTES)
	printf '{"name": "en_small", "lang": "en", "commit": "%s", "licence": "%s"}' \
		"$$(git rev-parse HEAD)" "see en_small-ATTRIBUTION.md" > $(MODEL)/provenance.json
	$(BIN)/python -m spacy elmo convert $(MODEL)/model-best spacy_elmo/weights/en_small.safetensors \
		--dtype float16 --no-softmax --allow-loss --force --provenance $(MODEL)/provenance.json

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
