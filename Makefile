# On a new machine, `make demo` and `make test` install everything they need.

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

# Containers often set it. Then each process of the tests compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test kernels check slow browser docs fuzz sanitize soak model model-medium historical french pipelines newspapers wheels bare lint clean

demo: $(STAMP)
	$(BIN)/python -m spacy project run demo project --force
	@echo "Open project/demo/senses.html in a browser"

# Each file of tests runs in one process. WORKERS=0 runs all files in one process.
WORKERS ?= auto
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile
test: $(STAMP)
	$(PYTEST)
	$(MAKE) kernels ONLY=--with-kernel

# Run the tests whose numbers depend on the kernel again, with each other kernel that this machine
# has, all at the same time. Tests that run every kernel themselves, such as
# tests/frozen/test_kernel.py, are left out. `make test` also leaves out those that passed without one.
KERNEL_TESTS := tests/embedding tests/layers tests/pipeline tests/frozen/test_frozen_model.py \
	tests/analysis/test_neighbors.py tests/export/test_outputs.py tests/export/test_selection.py \
	tests/weights/test_allennlp.py tests/weights/test_manylangs.py
OTHER_KERNELS := from spacy_elmo.frozen.kernel import available_kernels, find_kernel; \
	others = [name for name in available_kernels() if name != find_kernel().name]; \
	print(*(f'--tx popen//id={name}//env:SPACY_ELMO_KERNEL={name}' for name in others), end='')
kernels: $(STAMP)
	others=$$($(BIN)/python -c "$(OTHER_KERNELS)"); \
	test -z "$$others" || $(BIN)/python -m pytest --dist each $$others $(KERNEL_TESTS) \
		-m "not slow and not processes and not large" $(ONLY)

# Run `make check` before a commit. It skips tests with a mark of pyproject.toml.
QUICK := not slow and not browser and not processes and not training \
	and not threads and not pipelines and not corpora and not commands and not conversions \
	and not large
check: lint
	$(BIN)/python -m pytest -m "$(QUICK)"

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

# These tests need Chromium or Chrome and are skipped without it. Playwright does not install one.
browser: $(STAMP)
	$(BIN)/python -m pytest -m browser

fuzz: $(STAMP)
	cd tests && $(CURDIR)/$(BIN)/python -m helpers.fuzz

# The tests of frozen models, with kernels that were built with ASan and UBSan. It needs Linux and g++.
sanitize: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m helpers.sanitize

# A service under load: `make soak MINUTES=20`. It needs Linux.
soak: MINUTES = 20
soak: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m helpers.soak --minutes $(MINUTES)

# Train the bundled model on english-open-train.txt.gz (CORPUS), its index
# english-open-train.index.tsv.gz (INDEX) and english-open-valid.txt (HELD_OUT). The second run
# continues the first on a text with less of Wikipedia. Run it again to resume an interrupted run.
# MINUTES is the total time of the first run.
MINUTES ?= 1530
MODEL := project/pretraining/en_small
model: $(STAMP)
	$(BIN)/python -m spacy elmo pretrain configs/pretraining/en_small.cfg --output $(MODEL)/first --resume \
		--paths.train "$(CORPUS)" --paths.dev "$(HELD_OUT)" --training.max_minutes $(MINUTES)
	test -f $(MODEL)/weighed.txt || PYTHONPATH=project $(BIN)/python -m scripts.data.weigh_sources \
		"$(CORPUS)" "$(INDEX)" $(MODEL)/weighed.txt --source wikipedia_en --share 0.3333 --rounds 6
	$(BIN)/python -m spacy elmo pretrain configs/pretraining/en_small_continued.cfg --resume \
		--output $(MODEL)/continued --pretraining.init $(MODEL)/first/model-best \
		--paths.train $(MODEL)/weighed.txt --paths.dev "$(HELD_OUT)"
	printf '{"name": "en_small", "lang": "en", "commit": "%s", "licence": "%s"}' \
		"$$(git rev-parse HEAD)" "see en_small-ATTRIBUTION.md" > $(MODEL)/provenance.json
	$(BIN)/python -m spacy elmo convert $(MODEL)/continued/model-best spacy_elmo/weights/en_small.safetensors \
		--dtype float16 --allow-loss --force --provenance $(MODEL)/provenance.json

# Train en_medium on english-open-train.txt.gz and english-web-train.txt.xz with their indexes
# (CORPUS, INDEX, WEB, WEB_INDEX) and on wnut17-raw.txt.gz (POSTS). HELD_OUT is a text of the same
# sources. Run it again to resume an interrupted run.
MEDIUM := project/pretraining/en_medium
model-medium: $(STAMP)
	$(BIN)/python -m pip install --constraint constraints.txt floret
	mkdir -p $(MEDIUM)
	test -f $(MEDIUM)/text.txt || PYTHONPATH=project $(BIN)/python -m scripts.data.weigh_sources \
		"$(CORPUS)" "$(INDEX)" $(MEDIUM)/text.txt --source wikipedia_en --share 0.3333 --rounds 2 \
		--also-text "$(WEB)" --also-index "$(WEB_INDEX)" --also-text "$(POSTS)" --without qmsum
	test -d $(MEDIUM)/text || $(BIN)/python -m spacy elmo corpus $(MEDIUM)/text.txt $(MEDIUM)/text
	test -f $(MEDIUM)/words.npz || PYTHONPATH=project $(BIN)/python -m scripts.data.train_word_vectors \
		$(MEDIUM)/words.npz $(MEDIUM)/text.txt --max-sentences 3400000
	test -f $(MEDIUM)/start.safetensors || PYTHONPATH=project $(BIN)/python -m scripts.data.widen_model \
		en_small $(MEDIUM)/text $(MEDIUM)/words.npz $(MEDIUM)/start.safetensors
	$(BIN)/python -m spacy elmo pretrain configs/pretraining/en_medium.cfg --resume --output $(MEDIUM)/run \
		--pretraining.init $(MEDIUM)/start.safetensors --paths.train $(MEDIUM)/text --paths.dev "$(HELD_OUT)"

# NER on OCR'd newspapers, with pretraining: docs/historical.md says which files to copy first.
historical: $(STAMP)
	$(BIN)/python -m pip install --constraint constraints.txt floret
	$(BIN)/python -m spacy project run historical project

# A language model of French novels in TEI, and NER on OCR'd newspapers in French. It downloads the
# corpora first.
french: $(STAMP)
	$(BIN)/python -m pip install --constraint constraints.txt floret
	$(BIN)/python -m spacy project assets project
	$(BIN)/python -m spacy project run french project

# The pipelines for spacy.load: corpora, three trainings with and without ELMo, measurements, and the
# folder that `make wheels` packs. It downloads the corpora first.
pipelines: $(STAMP)
	$(BIN)/python -m spacy project assets project
	$(BIN)/python -m spacy project run pipelines project

# The pipeline for old newspapers in German, in the same steps.
newspapers: $(STAMP)
	$(BIN)/python -m spacy project assets project
	$(BIN)/python -m spacy project run newspapers project

# Build the pages in docs/ as a site: docs/_build/html/index.html.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --builder html docs docs/_build/html

# Build dist/: the package's wheel and source archive, and the wheels of the models.
wheels: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	set -e; models=$$(PYTHONPATH=wheels $(BIN)/python -c "from model import MODELS; print(*MODELS)"); \
		for model in $$models; do $(BIN)/python wheels/model.py $$model dist; done

# Install these wheels in a new environment, and run the code in README.md and the cards there.
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
