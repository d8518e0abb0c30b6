# Everything a contributor needs. Each target makes or refreshes .venv first, so a clean clone
# needs only python3 (3.11 to 3.13) and a package index.

PYTHON ?= python3
JOBS ?= 2
MINUTES ?= 5
BASE ?= main
MODULE ?= examples/transformer_block.hlo

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := $(wildcard requirements/ci.txt)
HLOOM := $(BIN)/python -m hloom.tools.main
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq --no-input

NATIVE := hloom/runtime/native
# make_abi.py writes abi.h, make_saved_form.py saved_form.h.
FORMATTED := $(filter-out $(NATIVE)/pjrt/abi.h $(NATIVE)/saved_form.h,$(wildcard $(addprefix $(NATIVE)/,*.cc *.h *.inc */*.cc */*.h))) \
  $(wildcard tests/runtime/stress*.cc tests/runtime/stress*.h)
TIDIED := $(patsubst $(NATIVE)/%.cc,build/tidy/%.ok,$(wildcard $(addprefix $(NATIVE)/,*.cc */*.cc)))
# Rooms whose tests run compiled programs; of the rest, passes and peer are slow under guard and tell no more.
GUARDED_TESTS := $(addprefix tests/,codegen frontends/stablehlo/test_jax_programs.py fuzz plugin program runtime targets) \
  $(filter-out $(addprefix tests/test_,layers.py one_way.py sizes.py),$(wildcard tests/test_*.py))
# Kernels' machine code, which tests under guard find where others left it (tests/kept_objects.py).
KEPT := HLOOM_TEST_OBJECTS=$(CURDIR)/build/test-objects
# Of those rooms, what compiles no program, calls routines with arrays of its own, has each run of several processes
# begin anew, or asks for the values of functions: guards see nothing there that they do not see elsewhere.
UNGUARDED_TESTS := $(addprefix tests/fuzz/test_,extremes.py fuzz.py fuzz_graph.py) \
  $(addprefix tests/codegen/llvm/test_,called_functions.py math.py math_complex.py) \
  $(addprefix tests/plugin/test_,loading.py parallel_training.py several_processes.py start.py) \
  $(addprefix tests/runtime/test_,fft.py linalg.py linalg_lanes.py processes.py sort.py topk.py) tests/targets/sim
# What devices and processes need, and what draws for them.
MEETING := tests/runtime/stress_collectives.cc $(NATIVE)/pool.cc $(NATIVE)/region.cc $(NATIVE)/float_mode.cc \
  $(NATIVE)/context.cc $(NATIVE)/arena.cc $(NATIVE)/guard.cc $(NATIVE)/fork.cc $(NATIVE)/queue.cc $(NATIVE)/rng_state.cc \
  $(wildcard $(NATIVE)/communicator*.cc) $(wildcard $(NATIVE)/processes*.cc) $(NATIVE)/devices.cc $(NATIVE)/launches.cc $(NATIVE)/team.cc $(NATIVE)/executor.cc

TSAN_SOURCES := tests/runtime/stress.cc $(MEETING)
GROUPS ?= 300
SEQUENCES ?= 30

SANITIZED := $(CURDIR)/build/sanitize/libhloom_runtime.so
SANITIZE := -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
CHANGES ?= 10000

# What pytest rewrites of tests (20 s of a processor for each of its processes) is kept for the next run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo tour test guard check check-types check-python check-native check-rooms format bench replay fuzz docs examples proto stub lock tidy tsan stress sanitize wheels clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make or refresh .venv

$(STAMP): pyproject.toml $(LOCK)
	@test -x $(BIN)/python || { echo "== making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "== installing hloom and its tools into $(VENV)"
	@$(PIP) install $(if $(LOCK),-c $(LOCK)) -e '.[dev]'
	@$(BIN)/python -m compileall -q -j $(JOBS) hloom  # also where Python is told to write none itself
	@touch $@

demo: $(STAMP) ## compile and run ResNet-50 and a transformer: stages, times, memory
	@$(BIN)/python -m bench.demo
	@echo "== more: make tour shows the commands; docs/from-hlo-to-machine-code.md what happens inside"

tour: $(STAMP) ## the command line on one program (MODULE=file.hlo for another)
	@echo "== stats: what is in $(MODULE)"
	@$(HLOOM) stats $(MODULE) --top 8
	@echo "== verify: is it well formed, and what is said of one that is not"
	@$(HLOOM) verify $(MODULE)
	@mkdir -p build
	@sed 's/f32\[4\]{0} reduce(/f32[8]{0} reduce(/' examples/softmax.hlo > build/wrong.hlo
	@$(HLOOM) verify build/wrong.hlo || true
	@echo
	@echo "== eval: what it computes, on random inputs"
	@$(HLOOM) eval $(MODULE)
	@echo "== opt: rewrite it"
	@$(HLOOM) opt $(MODULE) --passes=call-inliner,algsimp,cse,dce --stats -o build/tour.hlo
	@echo "== print: read the result"
	@$(HLOOM) print build/tour.hlo
	@echo
	@echo "== more: docs/hlo.md explains HLO; the other programs are in examples/"

test: $(STAMP) ## the whole test suite
	@echo "== tests ($(JOBS) processes)"
	@$(KEPT) $(BIN)/python -m pytest -q -n $(JOBS)

guard: $(STAMP) ## the tests that run compiled programs, under HLOOM_GUARD=1
	@echo "== tests under guard ($(JOBS) processes)"
	@HLOOM_GUARD=1 $(KEPT) $(BIN)/python -m pytest -q -n $(JOBS) $(GUARDED_TESTS) \
	  $(addprefix --ignore=,$(UNGUARDED_TESTS))

check: $(STAMP) ## formatting, lint, types, layers, sizes; two minutes more where all of C++ is new
	@$(MAKE) -s -j $(JOBS) --output-sync=target check-types check-python check-native check-rooms

# The parts of make check, the longest first; several run at a time.
check-types:
	@echo "== pyright"
	@$(BIN)/pyright

check-python:
	@echo "== ruff format"
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@echo "== ruff check"
	@$(BIN)/ruff check --quiet .

check-native:
	@echo "== clang-format"
	@$(BIN)/clang-format --dry-run --Werror $(FORMATTED) || { echo "run: make format"; exit 1; }
	@echo "== clang-tidy"
	@$(MAKE) -s tidy

check-rooms:
	@echo "== layers and sizes"
	@$(BIN)/python -m pytest -q tests/test_layers.py tests/test_sizes.py tests/ir/test_traits.py \
		tests/device/test_no_constants_elsewhere.py

tidy: $(TIDIED)

# A source is looked at again when it, or any header, has changed.
build/tidy/%.ok: $(NATIVE)/%.cc $(wildcard $(addprefix $(NATIVE)/,*.h *.inc */*.h)) .clang-tidy
	@$(BIN)/clang-tidy --quiet $< -- -std=c++20 -fno-exceptions -fno-rtti 2> /dev/null
	@mkdir -p $(@D) && touch $@

format: $(STAMP) ## let ruff and clang-format format, and ruff fix what it can
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(FORMATTED)
	@$(BIN)/ruff check --fix --quiet .

bench: $(STAMP) ## measure beside XLA:CPU, an hour; results and plots go to bench/results/
	@$(BIN)/python -m bench.run
	@$(HLOOM) bench ops loops models compile dispatch memory \
	  --history bench/results/history --page bench/results/bench.html

replay: $(STAMP) ## compile many programs at BASE and here, and show whose stages differ
	@$(BIN)/python -m bench.replay --base $(BASE)

fuzz: $(STAMP) ## broken programs for the readers, random ones for the compiler (MINUTES=60 each)
	@HLOOM_STRICT=1 $(BIN)/python -m tests.fuzz.run --minutes $(MINUTES)
	@echo "== random programs, compiled and interpreted"
	@HLOOM_STRICT=1 $(BIN)/python -m tests.fuzz.run_native --minutes $(MINUTES)
	@echo "== the same at the sizes people use"
	@HLOOM_STRICT=1 $(BIN)/python -m tests.fuzz.run_sizes --minutes $(MINUTES)
	@echo "== programs on arrays of run-time size"
	@HLOOM_STRICT=1 $(BIN)/python -m tests.fuzz.run_dynamic --minutes $(MINUTES)
	@echo "== programs of several devices"
	@HLOOM_STRICT=1 $(BIN)/python -m tests.fuzz.run_devices --minutes $(MINUTES)
	@echo "== every operation of StableHLO, against XLA too"
	@HLOOM_STRICT=1 $(BIN)/python -m tests.fuzz.run_stablehlo --minutes $(MINUTES)
	@echo "== every kernel family at every length"
	@HLOOM_STRICT=1 $(BIN)/python -m tests.fuzz.sweep_sizes --minutes $(MINUTES)

proto: $(STAMP) ## compile hloom/ir/schema/*.proto to the descriptor set the package loads
	@$(BIN)/python -m grpc_tools.protoc -I hloom/ir/schema --include_imports \
	  --descriptor_set_out=hloom/ir/schema/hlo.binpb hloom/ir/schema/*.proto
	@echo "== wrote hloom/ir/schema/hlo.binpb"

docs: $(STAMP) ## write the generated pages of docs/, and the outputs that others show
	@$(BIN)/python docs/make_pages.py
	@$(BIN)/python -m tests.docs.pages README.md docs/hlo.md docs/from-hlo-to-machine-code.md docs/jax.md

examples: $(STAMP) ## write the examples that JAX makes
	@$(BIN)/python examples/make_examples.py

stub: $(STAMP) ## write the builder's type stub from the op declarations
	@$(BIN)/python -m hloom.ir.stub

lock: ## pin the versions that CI installs, from a fresh resolution of pyproject.toml
	@bash requirements/lock.sh $(PYTHON)

tsan: ## run the threads of the native runtime under ThreadSanitizer
	@mkdir -p build/tsan
	@echo "== compiling tests/runtime/stress*.cc and the runtime with -fsanitize=thread"
	@$${CXX:-c++} -std=c++20 -O1 -g -pthread -fno-exceptions -fno-rtti -fsanitize=thread -Wall -Wextra \
	  -Wno-unused-parameter $(TSAN_SOURCES) -o build/tsan/stress
	@echo "== running it"
	@$$(command -v setarch > /dev/null && echo setarch -R) build/tsan/stress

stress: $(STAMP) ## drawn collectives on four processes, some of which are killed (GROUPS=300 SEQUENCES=30)
	@mkdir -p build
	@$${CXX:-c++} -std=c++20 -O1 -g -pthread -fno-exceptions -fno-rtti -Wall -Wextra \
	  tests/runtime/stress_processes.cc $(MEETING) -ldl -o build/stress
	@build/stress $(GROUPS) $(SEQUENCES) 1
	@build/stress 4 1000 500
	@$(BIN)/mpirun -n 4 build/stress \
	  "$$($(BIN)/python -c 'import os; from hloom.runtime.communicator import processes; print("\n".join(processes.mpi_libraries(os.environ)))')" 10000 900

wheels: ## the sdist, and wheels for x86-64 and aarch64 that load from glibc 2.28 on, in dist/
	@test -x build/release/bin/python || $(PYTHON) -m venv build/release
	@build/release/bin/python -m pip --disable-pip-version-check -qq --no-input install -r release/requirements.txt
	@build/release/bin/python release/wheels.py

sanitize: $(STAMP) ## damaged saved programs for a runtime with AddressSanitizer and UBSan (CHANGES=100000)
	@echo "== compiling the runtime with -fsanitize=address,undefined"
	@CXXFLAGS="$(SANITIZE) -O0 -g1" LDFLAGS="$(SANITIZE)" $(BIN)/python -c 'from pathlib import Path; \
	  from hloom.runtime.build import build; build(Path("$(SANITIZED)"))'
	@echo "== loading programs with $(CHANGES) changed bytes of each form"
	@LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so):$$($${CXX:-c++} -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	  HLOOM_RUNTIME_LIBRARY=$(SANITIZED) $(BIN)/python -m tests.fuzz.run_saved --count $(CHANGES)
	@echo "== the same for libhloom_rt, by its C functions"
	@$(BIN)/python -m tests.fuzz.run_runtime_library --count $$((10 * $(CHANGES)))

clean: ## remove what was built (the .venv too)
	@rm -rf $(NATIVE)/build $(NATIVE)/*.so
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find hloom tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
