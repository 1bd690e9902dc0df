# Everything works from a fresh clone: `make` builds, `make test` tests, `make help` lists the rest.
# A target names what it installs before it does: Python packages go to .venv; system packages come from apt-get, and
# only if they are missing (see tools/prepare.py).

PYTHON ?= python3
JOBS ?= $(shell nproc)
# Which CUDA compiler: auto, wheel, system or off (see cmake/CudaOptional.cmake).
PLAIT_CUDA ?= auto
# Wheels and `make install` have every kernel for five targets. For development, that of the GPU here is enough; without
# a GPU, PTX that runs on any GPU, and Hopper. `make CUDA_ARCHITECTURES=` builds for all five.
CUDA_ARCHITECTURES ?= $(if $(wildcard /dev/nvidiactl),native,75-virtual;90-real)
# Warnings are errors in CI, but not for users, whose compilers may be newer.
WERROR ?= $(if $(CI),ON,OFF)
# Several files compiled as one take less time, but then nobody sees that one of them lacks an include.
UNITY ?= $(if $(CI),ON,OFF)
# How many seconds the tests of one sanitizer may take, and the tests with several threads.
SANITIZE_SECONDS ?= 1200
THREAD_TESTS ?= host_rank_test rank_status_test segment_test waiting_test peers_test bootstrap_test collectives_test \
  adapted_ranks_test fifo_test p2p_test messages_test agreement_test agreement_rounds_test

export PLAIT_CUDA
VENV := $(CURDIR)/.venv
IN_VENV := PATH="$(VENV)/bin:$$PATH"
# What the system lacks takes root. SUDO=1 lets make run sudo for it; otherwise it shows the command and stops.
SUDO ?=
PREPARE := @$(PYTHON) tools/prepare.py$(if $(SUDO), --sudo)
CMAKE := $(IN_VENV) cmake --log-level=NOTICE --no-warn-unused-cli -S . -G Ninja -DPLAIT_WERROR=$(WERROR)
COMPILE := $(IN_VENV) cmake --build
CTEST := $(IN_VENV) ctest --output-on-failure -j $(JOBS)
comma := ,
space := $(subst ,, )
# The randomised address layout of newer kernels breaks gcc's ThreadSanitizer.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)
CPP_FILES = $(shell find src include tests python examples benchmarks \
  \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null)
PYTHON_FOLDERS = $(wildcard python tools tests/python tests/gpu examples benchmarks)

.DEFAULT_GOAL := build
.NOTPARALLEL:
GPU_BUILD ?= build/gpu
PREFIX ?= /usr/local
.PHONY: build test gallery reference torch-test gpu-programs gpu-test gpu-sanitize gpu-package gpu-python-test gpu-bench kernels examples demo release wheel install uninstall bench sanitize sanitize-address sanitize-thread lint format tidy clean distclean help

build:  ## build the library, the Python module and .venv/bin/plait (the default)
	$(PREPARE) build
	@$(CMAKE) -B build/release $(RELEASE_OPTIONS)
	@$(COMPILE) build/release -j $(JOBS)

RELEASE_OPTIONS = -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE=$(VENV)/bin/python -DPLAIT_CUDA=$(PLAIT_CUDA) -DPLAIT_UNITY=$(UNITY) \
  '-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)'

test: RELEASE_OPTIONS += -DPLAIT_TESTS=ON
test:  ## build, then run the C++ tests and the Python tests
	$(PREPARE) build test
	@$(CMAKE) -B build/release $(RELEASE_OPTIONS)
	@$(COMPILE) build/release -j $(JOBS)
	@status=0; $(CTEST) --test-dir build/release || status=1; $(VENV)/bin/python -m pytest || status=1; exit $$status

# Where there is no GPU, PyTorch comes without its CUDA packages; TORCH=whole brings them.
TORCH ?=
torch-test: build  ## install PyTorch (1.2 GB) into .venv, then test plait.torch; from then on make test does it, too
	$(PREPARE) test $(if $(filter whole,$(TORCH)),torch-whole,torch)
	@$(VENV)/bin/python -m pytest tests/python/test_torch*.py

# These need only CMake, Ninja, nvcc and GoogleTest, which may be a folder with its sources, GOOGLETEST. So they also build
# on machines without network.
GOOGLETEST ?=
gpu-programs:
	cmake --log-level=NOTICE -S . -B $(GPU_BUILD) -G Ninja -DPLAIT_PYTHON=OFF -DPLAIT_GPU_TESTS=ON -DPLAIT_CUDA=system \
	  '-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)' $(if $(GOOGLETEST),'-DPLAIT_GOOGLETEST=$(abspath $(GOOGLETEST))')
	cmake --build $(GPU_BUILD) -j $(JOBS) --target tests_gpu

gpu-test: gpu-programs  ## build and run the tests that need a GPU; says what it skipped
	ctest --test-dir $(GPU_BUILD) --output-on-failure -V -R '^gpu/'

gpu-sanitize: gpu-programs  ## run some of them, shortened, under compute-sanitizer: memory, races, barriers
	@tests/gpu/sanitize.sh $(GPU_BUILD)/tests/gpu

# These two need the same but for GoogleTest, and nanobind in $(PYTHON). COMMIT names what is measured, in a copy of the
# tree without git.
GPUS ?=
COMMIT ?=
GPU_PACKAGE = $(abspath $(GPU_BUILD))/package
GPU_PACKAGE_OPTIONS = -DPLAIT_PYTHON=ON -DPLAIT_CUDA=system '-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)' \
  '-DPython_EXECUTABLE=$(shell command -v $(PYTHON))' '-DPLAIT_PYTHON_FOLDER=$(GPU_PACKAGE)' '-DPLAIT_COMMIT=$(COMMIT)'
gpu-package:
	cmake --log-level=NOTICE -S . -B $(GPU_BUILD) -G Ninja $(GPU_PACKAGE_OPTIONS)
	cmake --build $(GPU_BUILD) -j $(JOBS) --target _core plait_nccl

gpu-python-test: gpu-package  ## build, then test arrays of torch, CuPy, numba and JAX in GPU memory
	$(PYTHON) tests/gpu/python_test.py '$(GPU_PACKAGE)'

GPU_BENCH ?= all_reduce -b 8 -e 1G -f 4 -G 20 --vs nccl
GPU_BENCH_RESULT ?= $(GPU_BUILD)/bench.json
gpu-bench: gpu-package  ## build, run `plait bench $(GPU_BENCH)` on GPUS=N GPUs (default: all), compare with the machine's baseline
	PYTHONPATH='$(GPU_PACKAGE)' $(PYTHON) -m plait bench $(GPU_BENCH) --device cuda $(if $(GPUS),-n $(GPUS)) \
	  --json '$(GPU_BENCH_RESULT)'
	$(PYTHON) benchmarks/check_baseline.py '$(GPU_BENCH_RESULT)'

# Every architecture that has machine code of its own, whatever GPU is here. After a release, ccache has the same objects.
KERNEL_ARCHITECTURES ?= 80-real;90-real;100-real
kernels:  ## compile the kernels and read their machine code: wide accesses, no spills, few enough registers
	$(PREPARE) kernels
	@$(CMAKE) -B build/kernels -DCMAKE_BUILD_TYPE=Release -DPLAIT_UNITY=$(UNITY) -DPLAIT_PYTHON=OFF -DPLAIT_CUDA=$(PLAIT_CUDA) \
	  '-DCMAKE_CUDA_ARCHITECTURES=$(KERNEL_ARCHITECTURES)'
	@$(COMPILE) build/kernels -j $(JOBS) --target plait_runtime_cuda_rank
	@$(VENV)/bin/python tools/check_kernels.py

examples: build  ## build the examples in C, in build/release/examples
	@$(COMPILE) build/release -j $(JOBS) --target examples

# A quick look: where nothing is built yet, or only for this, several files are compiled as one, and kernels only if there
# is a GPU. `make` then builds the rest.
QUICK := $(if $(wildcard build/release/CMakeCache.txt),$(shell sed -n 's/^PLAIT_UNITY:BOOL=ON/ON/p' build/release/CMakeCache.txt),ON)
demo: PLAIT_CUDA := $(if $(and $(QUICK),$(filter auto,$(PLAIT_CUDA)),$(if $(wildcard /dev/nvidiactl),,none)),off,$(PLAIT_CUDA))
demo: RELEASE_OPTIONS += -DPLAIT_UNITY=$(or $(QUICK),OFF)
demo:  ## build the Python module and run examples/demo.py
	$(PREPARE) build demo
	@$(CMAKE) -B build/release $(RELEASE_OPTIONS)
	@$(COMPILE) build/release -j $(JOBS) --target _core
	@$(VENV)/bin/python examples/demo.py

# Installed libraries have kernels for all targets, whatever GPU is here, unless CUDA_ARCHITECTURES says otherwise.
INSTALLED := build/install
INSTALLED_ARCHITECTURES = $(if $(filter file,$(origin CUDA_ARCHITECTURES)),,$(CUDA_ARCHITECTURES))
release:  ## build the C and C++ interface with kernels for all GPU targets, for make install
	$(PREPARE) build
	@$(CMAKE) -B $(INSTALLED) -DCMAKE_BUILD_TYPE=Release -DPLAIT_PYTHON=OFF -DPLAIT_CUDA=$(PLAIT_CUDA) \
	  '-DCMAKE_CUDA_ARCHITECTURES=$(INSTALLED_ARCHITECTURES)'
	@$(COMPILE) $(INSTALLED) -j $(JOBS) --target plait plait_nccl plait_nccl_by_name

# Wheels have kernels for all targets as well. pip makes one for systems like this; auditwheel looks at what it links, and
# names the oldest systems that have it.
WHEELS ?= build/wheels
wheel:  ## build and check a wheel with kernels for all GPU targets, tagged manylinux, in WHEELS (default build/wheels)
	$(PREPARE) build wheel
	@rm -rf build/linux-wheel && CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(VENV)/bin/python -m pip wheel -q --no-deps -w build/linux-wheel .
	@$(IN_VENV) auditwheel repair --only-plat -w '$(WHEELS)' build/linux-wheel/*.whl && ls '$(WHEELS)'/*
	@$(VENV)/bin/python tools/check_wheel.py --manylinux $(if $(filter-out off,$(PLAIT_CUDA)),--kernels) "$$(ls -t '$(WHEELS)'/*.whl | head -n 1)"

# Root only copies files: other users could not rebuild what root has built.
# In containers the folder is often root's own, and then root may build.
AS_ROOT ?= $(filter-out $(shell stat -c %u '$(CURDIR)'),$(filter 0,$(shell id -u)))
install: $(if $(AS_ROOT),,release)  ## install the C and C++ interface to PREFIX (default /usr/local); as root after `make release`
	@[ -e $(INSTALLED)/lib/libplait.so ] || { echo 'nothing to install yet: run `make release` first, as the owner of this folder'; exit 1; }
	@rm -f $(INSTALLED)/install_manifest_c.txt
	@$(IN_VENV) cmake --install $(INSTALLED) --prefix '$(PREFIX)' --component c

uninstall:  ## remove what the last make install installed
	@[ -e $(INSTALLED)/install_manifest_c.txt ] || { echo 'nothing to remove: $(INSTALLED)/install_manifest_c.txt is not there'; exit 1; }
	@while read -r file || [ -n "$$file" ]; do \
	  file="$(DESTDIR)$$file"; echo "removes $$file"; rm -f "$$file" || exit 1; rmdir --ignore-fail-on-non-empty "$$(dirname "$$file")" 2>/dev/null || true; \
	done < $(INSTALLED)/install_manifest_c.txt
	@rm -f $(INSTALLED)/install_manifest_c.txt

bench: build  ## run the benchmarks of benchmarks/run.py; BENCH="..." passes arguments
	@$(VENV)/bin/python benchmarks/run.py $(BENCH)

sanitize: sanitize-address sanitize-thread  ## run the unit, property and C API tests under gcc's or clang's sanitizers

# The sanitizers see only code of the C++ compiler, so only those kernels that tests run on a CPU. nvcc makes the same
# objects as for a release, so ccache has them.
SANITIZE_OPTIONS = -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DPLAIT_TESTS=ON -DPLAIT_PYTHON=OFF \
  -DPLAIT_CUDA=$(PLAIT_CUDA) '-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)' '-DCMAKE_CUDA_FLAGS=-O3 -DNDEBUG'
# $(call sanitized,<build folder>,<sanitizers>,<targets to build>,<tests to run>)
define sanitized
	$(PREPARE) sanitize
	@$(CMAKE) -B build/$(1) $(SANITIZE_OPTIONS) -DPLAIT_SANITIZE=$(2)
	@$(COMPILE) build/$(1) -j $(JOBS) --target $(3)
	@UBSAN_OPTIONS=print_stacktrace=1 timeout $(SANITIZE_SECONDS) $(FIXED_ADDRESSES) env $(CTEST) --test-dir build/$(1) -R '$(4)' \
	  || { [ $$? != 124 ] || echo 'build/$(1): stopped after SANITIZE_SECONDS=$(SANITIZE_SECONDS)'; exit 1; }
endef

# gcc 12's leak detector takes a library's thread-local memory for that of an old glibc where its address is 16 bytes past
# a page, reads its bounds from random bytes and crashes; without this option it does not look there.
sanitize-address: export ASAN_OPTIONS := intercept_tls_get_addr=0
sanitize-address:
	$(call sanitized,asan,address$(comma)undefined,tests_unit tests_property tests_c_api,^(unit|property)/|^c_api/(arguments|groups|messages|operations|cpp|endings)$$)

# Only the host runtime has threads that share data.
sanitize-thread: override PLAIT_CUDA := off
sanitize-thread:
	$(call sanitized,tsan,thread,$(THREAD_TESTS),/($(subst $(space),|,$(THREAD_TESTS)))$$)

lint:  ## check formats, Python, walls between folders, the tree, and that benchmark pages show the stored results
	$(PREPARE) lint
	@status=0; check() { echo "lint: $$1"; shift; "$$@" || status=1; }; \
	check 'format of C++' $(VENV)/bin/clang-format --dry-run -Werror $(CPP_FILES); \
	check 'Python' $(VENV)/bin/ruff check $(PYTHON_FOLDERS); \
	check 'format of Python' $(VENV)/bin/ruff format --check $(PYTHON_FOLDERS); \
	check 'walls between folders' $(PYTHON) tools/check_includes.py; \
	check 'files' $(PYTHON) tools/check_tree.py; \
	check 'benchmark pages' $(PYTHON) benchmarks/report.py --check; \
	check "tables of NCCL's drop-in" $(PYTHON) benchmarks/nccl_wins.py --check; \
	exit $$status

format:  ## rewrite the C++ and Python files in the tree's format
	$(PREPARE) lint
	@$(VENV)/bin/clang-format -i $(CPP_FILES)
	@$(VENV)/bin/ruff check --fix --quiet $(PYTHON_FOLDERS) || true
	@$(VENV)/bin/ruff format $(PYTHON_FOLDERS)

tidy: build  ## run clang-tidy over src/ (slow; not part of lint)
	$(PREPARE) tidy
	@$(VENV)/bin/clang-tidy -p build/release --quiet $(filter src/%.cpp,$(CPP_FILES))

# The pages of docs/algorithms/gallery are made from plans (tools/algorithm_pages.py), so a change of an algorithm, of a
# machine or of costs changes them.
gallery: build  ## write docs/algorithms/gallery: what each algorithm does, moves, and where it is chosen
	@$(VENV)/bin/python tools/algorithm_pages.py

# A public name that nothing explains is an error, and so is a link that leads nowhere (-W). It is made anew each time (-E):
# Sphinx does not see that docstrings and headers changed.
reference: build  ## make the reference of every public name, a site in build/reference: open its index.html
	$(PREPARE) reference
	@$(VENV)/bin/python -m sphinx -q -E -W --keep-going -j $(JOBS) -c tools/reference docs/reference build/reference
	@$(VENV)/bin/python tools/algorithm_pages.py --check
	@echo 'build/reference/index.html'

clean:  ## remove what was built
	rm -rf build python/plait/*.so

distclean: clean  ## remove .venv too
	rm -rf .venv

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo 'Variables: PYTHON=python3  JOBS=cores  PLAIT_CUDA=auto|wheel|system|off  CUDA_ARCHITECTURES=list  CXX=compiler  PREFIX=folder  SUDO=1'
