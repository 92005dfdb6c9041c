# `make quickstart` and `make test` are all a new user needs; `make help` lists the rest.
SHELL := /bin/bash
.DELETE_ON_ERROR:
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RANKS ?= 8

.PHONY: help build quickstart test test-all wheel interop-smoke check-aarch64 clean

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# Requirements are those of pyproject.toml; the stamp keeps a second run from asking pip again.
$(VENV)/.requirements: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
	  print(*p["build-system"]["requires"], *p["project"]["dependencies"], \
	        *(r for extra in p["project"]["optional-dependencies"].values() for r in extra), sep="\n")' > $@.txt
	$(BIN)/python -m pip install --quiet --requirement $@.txt
	mv $@.txt $@

# The editable install is redone only when what it records (names, entry points, folders) changes.
$(VENV)/.installed: $(VENV)/.requirements setup.py
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	touch $@

build: $(VENV)/.requirements  ## set up .venv and build; leaves .venv/bin/python and .venv/bin/npurun
	$(BIN)/python setup.py --quiet build_ext --inplace
	@$(MAKE) --no-print-directory $(VENV)/.installed

quickstart: build  ## train a small language model on 8 emulated NPUs (RANKS=N to change)
	$(BIN)/npurun --nproc $(RANKS) recipes/llama/train.py

test: build  ## the tests, at most 15 minutes on 2 cores
	$(BIN)/python -P -m pytest -n 2 --dist loadgroup -m "not slow" -q

test-all: build  ## the slow tests too
	$(BIN)/python -P -m pytest -n 2 --dist loadgroup -q

wheel: $(VENV)/.requirements  ## build a wheel into dist/
	$(BIN)/python -m pip wheel --no-build-isolation --no-deps --wheel-dir dist .

interop-smoke: build  ## the vendor's unmodified wheel on our emulator, in an environment of its own
	$(BIN)/python tests/interop/smoke.py

check-aarch64:  ## cross-compile for 64-bit Arm what needs no torch (Debian: g++-aarch64-linux-gnu)
	cmake -S csrc -B build/aarch64 -DNPU_WITH_TORCH=OFF -DCMAKE_SYSTEM_NAME=Linux \
	  -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DPython_EXECUTABLE=$$(command -v $(PYTHON))
	cmake --build build/aarch64 -j 2

clean:  ## remove what was built (not .venv)
	rm -rf build dist torch_npu/lib torch_npu/emulator torch_npu/_C*.so *.egg-info $(VENV)/.installed
