# Needs Python and pip; everything else is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
NATIVE := $(wildcard src/eigenformer/kernels/native/*.cpp src/eigenformer/kernels/native/*.h)

RUN ?= results/zinc
DRAW = $(BIN)/eigenformer figures

.PHONY: install demo figures test test-slow test-sanitize fuzz torture bench lint format clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt setup.py $(NATIVE)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else \
	  "Python 3.10 or later is needed, this is %d.%d; say  make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The main job, on graphs made on the spot; the run goes to a folder of its own each time.
demo: install
	$(BIN)/eigenformer demo --out runs/demo-$$(date +%Y%m%d-%H%M%S)

# The pictures of docs/figures.md, or of another run: make figures RUN=folder. Needs these, once:
#   eigenformer data prepare NAME --no-spectra      for zinc, mnist, cifar10 and peptides-func
#   eigenformer data prepare NAME --size 2000       for pattern and cluster
figures: install
	$(DRAW) substructures 'CC(=O)Oc1ccccc1C(=O)O' --out docs/figures/substructures.svg
	$(DRAW) potentials zinc mnist cifar10 pattern-n2000 cluster-n2000 peptides-func \
	  --out docs/figures/potentials.svg
	$(DRAW) attention $(RUN) --out docs/figures/attention.svg
	$(DRAW) filters $(RUN) --out docs/figures/filters.svg
	$(DRAW) filters $(RUN) --layer 8 --head 4 --out docs/figures/filter.svg
	$(DRAW) training $(RUN) --out docs/figures/training.svg
	$(DRAW) architecture zinc-feat --out docs/figures/architecture.svg

test: install
	$(BIN)/python -m pytest -m 'not slow' --numprocesses auto --dist loadfile

test-slow: install
	$(BIN)/python -m pytest -m slow

# The native kernel's tests on a build that reports bad addresses and undefined behaviour.
test-sanitize: install
	$(BIN)/python -m pytest -m slow tests/kernels/native -k sanitizers

# Mutated inputs for all readers and commands; FUZZ='--seed 7 --minutes 5' for another attack.
fuzz: install
	$(BIN)/python -m tests.fuzz $(FUZZ)

# Kills, full disks (as root) and rivals at random moments: TORTURE='--kills 20 --seed 1'.
torture: install
	$(BIN)/python -m tests.torture $(TORTURE)

bench: install
	$(BIN)/eigenformer bench --output build/bench

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -f src/eigenformer/kernels/native/*.so
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
