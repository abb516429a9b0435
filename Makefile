# samebit - one Makefile without recursion and without lists of files: a new source in the right folder is
# built.
#
#   make demo          installs what is missing, builds, runs the reference, says what it means
#   make check         every test that needs no GPU
#   make help          the other targets
#
# Variables for the command line:
#   BUILD=DIR          where everything is written (build); builds in different folders never meet
#   CC=clang           the compiler (gcc), and the C++ compiler of the same name (CXX=... for another)
#   OPT=-O0            optimization and debug information (-O2 and DEBUG_INFO, -g)
#   TEST_OPT=, COLD_OPT=...  what follows OPT for tests (-Og -g1, where OPT has -O2), and for sources in which
#                      little time is spent (nothing)
#   EXTRA=...          further flags for compiling and linking (sanitizers, -mavx2, -static)
#   PREFIX=/usr/local DESTDIR=DIR LIBDIR=...  where `make install` puts files, and a prefix for these paths
#   NVCC=...           the CUDA compiler (found where it is installed, for a build with the flags above as
#                      they are); NVCC= leaves the gpu backend out
#   CUDART=FILE        libcudart_static.a of another machine: nvcc then compiles for the machine of CC
#   V=1                print the whole commands

MAKEFLAGS += -rR --no-print-directory
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := all
Makefile: ;

ifeq ($(filter command line environment,$(origin CC)),)
CC := gcc
endif
ifeq ($(filter command line environment,$(origin AR)),)
AR := ar
endif
OBJCOPY := objcopy
ifeq ($(filter command line environment,$(origin CXX)),)
CXX := $(subst clang,clang++,$(subst gcc,g++,$(CC)))
endif
BUILD := build
PREFIX := /usr/local
LIBDIR := $(PREFIX)/lib
DESTDIR :=
# with DEBUG_INFO= in the environment, gcc takes a fifth less and the linker half: .ci/run
DEBUG_INFO ?= -g
OPT := -O2 $(DEBUG_INFO)
EXTRA :=
JANSSON_CFLAGS :=
JANSSON_LIBS := -ljansson
PCRE2_LIBS := -lpcre2-8
UTF8PROC_LIBS := -lutf8proc
ZIP_LIBS := -lminizip -lz
CRYPTO_LIBS := -lcrypto

# --- flags ------------------------------------------------------------------------------------------
# Each operation is one IEEE operation, in the order of the code (clause A-3 of docs/spec.md). Some
# clangs lack -frounding-math for some targets; a compiler that refuses it works without it. (With ROUNDING=...
# nothing is asked: zig would leave an a.out here.)
FP_FLAGS := -ffp-contract=off -fno-fast-math -fno-math-errno
TARGET := $(shell $(CC) -dumpmachine 2>/dev/null)
ifneq ($(filter s390x-%,$(TARGET)),)
FP_FLAGS += -fexcess-precision=fast # or gcc -std=c11 widens every float to double there
endif
ROUNDING := -frounding-math
ifneq ($(and $(filter file,$(origin ROUNDING)),$(findstring clang,$(shell $(CC) --version 2>/dev/null))),)
ROUNDING := $(shell printf 'float f(float x);float f(float x){return x+1;}' | \
    $(CC) $(EXTRA) -frounding-math -Werror -Wno-unused-command-line-argument -x c -fsyntax-only - 2>/dev/null && echo -frounding-math)
endif
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
    -Wvla -Werror
# below -O2, clang does not vectorize where a pragma asks for it, and warns
ifneq ($(and $(findstring clang,$(shell $(CC) --version 2>/dev/null)),$(filter-out -O2 -O3,$(OPT))),)
WARNINGS += -Wno-pass-failed
endif
CPPFLAGS := -D_POSIX_C_SOURCE=200809L -I. $(JANSSON_CFLAGS)
# macOS declares what is more than POSIX only if it is asked
ifneq ($(findstring macos,$(TARGET))$(findstring darwin,$(TARGET)),)
CPPFLAGS += -D_DARWIN_C_SOURCE
endif
# xxHash needs inlining, which -Og hardly does
ifneq ($(filter -Og,$(OPT)),)
CPPFLAGS += -DXXH_NO_INLINE_HINTS=1
endif
# one set of objects for the program and the shared library: names are hidden unless ref/samebit.h declares
# them
PIC := -fPIC -fvisibility=hidden
CFLAGS := -std=c11 $(OPT) -fopenmp-simd -pthread $(PIC) $(FP_FLAGS) $(ROUNDING) $(WARNINGS) $(EXTRA)
COMPILE := $(strip $(CC) $(CPPFLAGS) $(CFLAGS))
# the sources in which most of the time is spent; loops over independent elements are vectorized
# there (line numbers suffice as debug information: all of it takes a quarter of the compilation
# time)
HOT := ref/formats/% ref/math/% ref/ops/% ref/fast/% tools/make/% \
    $(addprefix tools/judge/,bound/% compare/% gate/% sim/%)
HOT_OPT := $(if $(filter -O2,$(OPT)),-O3 $(if $(DEBUG_INFO),-g1))
COLD_OPT :=
# a test runs once: -O2 would save less time than its compilation costs
TEST_OPT := $(if $(filter -O2,$(OPT)),-Og $(if $(DEBUG_INFO),-g1))
own_opt = $(if $(filter $(HOT),$(1)),$(HOT_OPT),$(if $(filter $(TEST_SRC) $(FUZZ_SRC),$(1)),$(TEST_OPT),$(COLD_OPT)))
# kernels and their emulator use the language C++, but not its library, so that C can link them (of
# -Wconversion, only what both compilers mean by it in C++)
CXX_WARNINGS := $(filter-out -Wstrict-prototypes -Wmissing-prototypes,$(WARNINGS)) -Wno-sign-conversion
CXXFLAGS := -std=c++17 $(OPT) -fno-exceptions -fno-rtti -fno-threadsafe-statics $(FP_FLAGS) $(ROUNDING) \
    $(CXX_WARNINGS) $(EXTRA)
ifneq ($(and $(findstring sanitize,$(EXTRA)),$(findstring clang,$(CXX))),)
CXXFLAGS += -fno-sanitize=function,vptr # these need that library
endif
COMPILE_CXX := $(strip $(CXX) $(CPPFLAGS) $(CXXFLAGS))
LINK := $(strip $(CC) $(OPT) -pthread $(EXTRA))
# ref/ has its own functions: neither the library nor the program links libm
API_LIBS := $(JANSSON_LIBS) $(PCRE2_LIBS)
LIBS := $(JANSSON_LIBS) $(PCRE2_LIBS) $(UTF8PROC_LIBS) $(ZIP_LIBS) $(CRYPTO_LIBS)
TEST_LIBS := -Wl,--as-needed -lcmocka -lmpfr -lgmp $(LIBS) -lm

# `make demo` alone: the program without kernels, unless they were built before (unneeded FILE: their flags)
DEMO_ONLY := $(if $(filter-out demo,$(MAKECMDGOALS)),,$(MAKECMDGOALS))
unneeded = $(if $(wildcard $(1)),,$(DEMO_ONLY))

# The device code of the gpu backend, for the two targets; nothing contracted (Z-1).
ifneq ($(call unneeded,$(BUILD)/flags-device),)
NVCC :=
endif
ifneq ($(and $(filter gcc,$(CC)),$(filter -O2,$(OPT)),$(if $(strip $(EXTRA)),,plain)),)
NVCC ?= $(firstword $(shell command -v nvcc) $(wildcard $(CUDA_HOME)/bin/nvcc /usr/local/cuda/bin/nvcc))
endif
CUDART :=
NVCC_HOST := $(if $(CUDART),-ccbin $(CXX) -isystem $(dir $(realpath $(NVCC)))../include)
NVCC_FLAGS := $(NVCC_HOST) -std=c++17 -O3 -fmad=false -Werror all-warnings -Xptxas -v --no-compress -I. -Xcompiler \
    -fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-ffp-contract=off
# only sm_121a has the instructions of FP8 and FP4; the other sources become PTX once, and code for both
# targets from it (NVCC_COMMON in the environment: .ci/run makes code for one)
NVCC_TARGETS := -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_121a,code=sm_121a
NVCC_COMMON ?= -gencode arch=compute_90,code=[sm_90,sm_121]
nvcc_targets = $(if $(filter %_lowbit.cc tests/%,$(1)),$(NVCC_TARGETS),$(NVCC_COMMON))
NVCC_LIBS := $(if $(NVCC),$(or $(CUDART),-L$(dir $(realpath $(NVCC)))../lib64 -lcudart_static) -ldl -lrt -lpthread)

# --- sources ----------------------------------------------------------------------------------------
sources = $(sort $(wildcard $(1)))
device_objects = $(patsubst %,$(BUILD)/device/%.cuda.o,$(basename $(1)))
objects = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))
binaries = $(addprefix $(BUILD)/,$(basename $(1)))

LIB_SRC := $(call sources,ref/*/*.c ref/*/*/*.c)
# in tools/bench, `make bench` is a separate program; the rest is the library of `samebit bench`
BENCH_SRC := $(call sources,tools/bench/bench*.c)
TOOL_SRC := $(filter-out $(BENCH_SRC),$(call sources,tools/*/*.c tools/*/*/*.c))
# Without a C++ compiler the program has no kernels; without nvcc it has no device for them. The demo needs neither.
HAVE_CXX := $(if $(call unneeded,$(BUILD)/flags-cxx),,$(shell command -v $(CXX)))
NO_DEVICE_SRC := gpu/absent_device.c gpu/meter/absent_device.c gpu/step/absent_device.c
GPU_SRC := $(if $(HAVE_CXX),$(call sources,gpu/*.cc gpu/*/*.cc gpu/*/*/*.cc),gpu/absent.c \
    gpu/meter/absent.c gpu/step/absent.c) $(if $(NVCC),,$(NO_DEVICE_SRC)) gpu/meter/calls.c gpu/step/calls.c gpu/step/resident.c
# sources for a device with large kernels are compiled separately, the others together
# (gpu/op/small.cu)
DEVICE_LARGE := $(addprefix gpu/op/,attention.cc delta_rule.cc delta_rule_chunk.cc draw.cc experts.cc experts_lowbit.cc \
    fused_mixer.cc fused_stream.cc linear.cc linear_lowbit.cc graph_cuda.cu small.cu)
DEVICE_SMALL := $(if $(NVCC),$(filter-out $(DEVICE_LARGE) gpu/op/%_emu.cc gpu/op/memory_fit.cc,$(call sources,gpu/op/*.cc gpu/op/*.cu)))
DEVICE_SRC := $(if $(NVCC),$(call sources,gpu/*.cu gpu/meter/device.cu gpu/step/*.cu) $(DEVICE_LARGE))
CLI_MAIN := tools/cli/main.c
# a suite is one program with the cases of a folder; a test with a main is a separate program, and says why
SUITES := $(filter-out $(if $(HAVE_CXX),,gpu),$(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.c tests/*/prop_*.c))))))
TEST_SRC := $(call sources,$(foreach suite,$(SUITES),$(foreach end,c cc,tests/$(suite)/test_*.$(end) tests/$(suite)/prop_*.$(end))))
ALONE_SRC := $(if $(TEST_SRC),$(shell grep -lw '^int main' $(TEST_SRC)))
# (fewer, if tests/asan.sh leaves some out)
CASES := $(TEST_SRC)
suite_sources = $(filter-out $(ALONE_SRC),$(filter tests/$(1)/%,$(CASES)))
FUZZ_SRC := $(call sources,tests/fuzz/fuzz_*.c)
FUZZ_DRIVER := tests/fuzz/standalone.c
# tests that launch their own kernels exist only with nvcc: tests/device/check.sh
DEVICE_TEST_SRC := tests/gpu/device_atoms.c tests/gpu/device_math.c
DEVICE_TEST_KERNELS := $(call device_objects,tests/gpu/device_kernels.cu)
OTHER_SRC := $(filter-out $(TEST_SRC) $(FUZZ_SRC) $(FUZZ_DRIVER) $(if $(NVCC),,$(DEVICE_TEST_SRC)),\
    $(call sources,tests/*.c $(if $(HAVE_CXX),tests/*/*.c tests/gpu/*.cc,$(filter-out tests/gpu/%,$(wildcard tests/*/*.c)))))
# among the other sources of tests/, those with a main are programs, and the rest help the tests
SUITE_MAIN := tests/lib/suite_main.c
PROGRAM_SRC := $(if $(OTHER_SRC),$(shell grep -lw '^int main' $(filter-out $(SUITE_MAIN),$(OTHER_SRC))))
# (replacements of system calls, in one of the programs each)
WRAP_SRC := tests/fault/sweep_calls.c tests/fuzz/command_guard.c tests/fuzz/guarded_map.c
# another machine's GPU tests need no MPFR, which is not there for it
HELP_SRC := $(filter-out $(PROGRAM_SRC) $(WRAP_SRC) $(SUITE_MAIN) $(if $(CUDART),tests/exhaustive/%),$(OTHER_SRC))
# the arithmetic digest is also built without cmocka and MPFR: only with the helpers that it includes
DIGEST_SRC := tests/arith_digest.c $(filter $(HELP_SRC),$(patsubst %.h,%.c,$(filter tests/%.h,\
    $(subst ",,$(shell grep -s 'include "tests/' tests/arith_digest.c)))))

LIB := $(BUILD)/libsamebit.a
TOOLS := $(BUILD)/libtools.a
HELP := $(BUILD)/libhelp.a
# installed by `make install`; a static link and the sanitizers of clang have no shared library
SHARED := $(BUILD)/libsamebit.so.0
STATIC := $(BUILD)/install/libsamebit.a
LIBRARIES := $(if $(findstring -static,$(EXTRA))$(findstring -fsanitize,$(EXTRA)),,$(SHARED) $(STATIC))
GPU := $(BUILD)/libgpu.a
# without a device, because its driver is a shared library
GPU_STATIC := $(BUILD)/static/libgpu.a
PROGRAM := $(BUILD)/samebit
STATIC_PROGRAM := $(BUILD)/static/samebit
# what tests/meta/static.sh runs; the sanitizers have no static form
STATIC_TESTED := $(if $(findstring -fsanitize,$(EXTRA)),,$(STATIC_PROGRAM).spdx.json)
SUITE_BIN := $(foreach suite,$(SUITES),$(if $(call suite_sources,$(suite)),$(BUILD)/suites/$(suite)))
TEST_BIN := $(call binaries,$(ALONE_SRC) $(PROGRAM_SRC))
FUZZ_BIN := $(call binaries,$(FUZZ_SRC))
# the program on a runtime that only records launches
LAUNCHES := $(if $(NVCC),$(BUILD)/tests/gpu/samebit_launches $(BUILD)/tests/gpu/device_ops_launches)
# the program whose launches sleep around ready and wait
JITTER := $(if $(NVCC),$(BUILD)/tests/gpu/device_ops_jitter)
JITTER_OBJECTS := $(patsubst $(BUILD)/device/%,$(BUILD)/jitter/%,$(call device_objects,$(DEVICE_SRC)))
BENCH_BIN := $(if $(BENCH_SRC),$(BUILD)/bench)
FORMATTED := $(call sources,ref/*.h ref/*/*.[ch] ref/*/*/*.[ch] tools/*/*.[ch] tools/*/*/*.[ch] tests/*.[ch] tests/*/*.[ch] \
    $(foreach end,h cc cu cuh,gpu/*.$(end) gpu/*/*.$(end) gpu/*/*/*.$(end) tests/gpu/*.$(end)))
ALL_SRC := $(GPU_SRC) $(LIB_SRC) $(TOOL_SRC) $(BENCH_SRC) $(TEST_SRC) $(FUZZ_SRC) $(FUZZ_DRIVER) $(OTHER_SRC)

# --- what must be installed -------------------------------------------------------------------------
# demo and the test targets install what is missing; the others only say what is missing.
INSTALLING := $(filter demo check check-all check-long asan fuzz golden crosscheck tests check-gpu \
    gpu-bundle,$(MAKECMDGOALS))
TESTING := $(filter-out demo,$(INSTALLING))
HAVE := $(BUILD)/have-$(if $(TESTING),test,build)

.PHONY: all program static lib objects install install-built uninstall tests demo check check-all check-macos check-long asan bench golden golden-hf crosscheck wheel deb site check-install engines fuzz format info \
    clean help FORCE
all: $(LIB) $(PROGRAM) $(LIBRARIES)
program: $(PROGRAM)
static: $(STATIC_PROGRAM).spdx.json
lib: $(SHARED) $(STATIC)
# every source of ref/ and tools/ compiled, and nothing linked: tests/macos.sh
objects: $(call objects,$(LIB_SRC) $(TOOL_SRC) $(BENCH_SRC))
tests: $(PROGRAM) $(STATIC_TESTED) $(LIBRARIES) $(SUITE_BIN) $(TEST_BIN) $(FUZZ_BIN) $(LAUNCHES)

$(HAVE): tools/deps $(if $(filter-out tests,$(INSTALLING)),FORCE)
	@mkdir -p $(@D)
	@tools/deps $(if $(INSTALLING),,--check) build $(if $(TESTING),test)
	@touch $@

# --- rules ------------------------------------------------------------------------------------------
quiet := $(if $(V),,@)
comma := ,
silent = $(findstring s,$(filter-out --%,-$(firstword $(MAKEFLAGS))))
# `make demo` says once how long the build takes, and not each file
step = $(if $(V)$(silent)$(DEMO_ONLY),,@printf '  %-5s %s\n' $(1) $(2))
CPU_SECONDS := 200 # of a whole build without kernels, about
define seconds_left
$(shell echo $$(( $(firstword $(CPU_SECONDS)) / $$(nproc) )))
endef
ifneq ($(DEMO_ONLY),)
ifeq ($(MAKE_RESTARTS)$(wildcard $(BUILD)/samebit),)
$(info Building the program: about $(strip $(seconds_left)) seconds on $(shell nproc) processors. (V=1 shows each file.))
endif
endif

# note FILE,VARIABLES[,words]: a file with one line for each variable, or for each word of the variables. It
# is written only if it changes, and then everything that depends on it is built again.
define note
$(BUILD)/$(1): $$(if $$(call differs,$$(strip $$(file <$(BUILD)/$(1))),$$(strip $$(foreach line,$(2),$$($$(line))))),FORCE) | $(HAVE)
	@mkdir -p $$(@D)
	@printf '%s\n' $$(foreach line,$(2),$(if $(3),$$($$(line)),$$(call quoted,$$($$(line))))) > $$@
endef
quoted = '$(subst ','\'',$(1))'
differs = $(subst x$(1)x,,x$(2)x)$(subst x$(2)x,,x$(1)x)
COMPILED := $(COMPILE) $(HOT_OPT) $(TEST_OPT) $(COLD_OPT)
LINKED := $(LINK) $(LIBS)
CC_IS := $(shell $(CC) --version 2> /dev/null | head -n 1)
COMPILED_CXX := $(COMPILE_CXX) $(TEST_OPT)
CXX_IS := $(shell $(CXX) --version 2> /dev/null | head -n 1)
COMPILED_DEVICE := $(NVCC) $(NVCC_FLAGS) $(NVCC_TARGETS)
# the version that `samebit --version` prints
COMMIT := $(shell git describe --always --dirty --tags 2> /dev/null)
$(eval $(call note,flags,COMPILED LINKED CC_IS))
$(eval $(call note,commit,COMMIT))
$(if $(HAVE_CXX),$(eval $(call note,flags-cxx,COMPILED_CXX CXX_IS)))
$(if $(NVCC),$(eval $(call note,flags-device,COMPILED_DEVICE NVCC_COMMON)))
$(eval $(call note,members,LIB_SRC TOOL_SRC GPU_SRC DEVICE_SRC HELP_SRC,words))
$(eval $(call note,suites/members,CASES,words))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call step,CC,$<)
	$(quiet)$(COMPILE) $(call own_opt,$<) $(DEFINE) -MMD -MP -c $< -o $@
$(BUILD)/obj/tools/cli/version.o: DEFINE = -DSB_COMMIT='"$(COMMIT)"'
$(BUILD)/obj/tools/cli/version.o: $(BUILD)/commit
$(BUILD)/obj/%.o: %.cc $(BUILD)/flags-cxx
	@mkdir -p $(@D)
	$(call step,CXX,$<)
	$(quiet)$(COMPILE_CXX) $(if $(filter tests/%,$<),$(call own_opt,$<)) -MMD -MP -c $< -o $@

# the output of ptxas for each kernel stays beside the object: tests/gpu/device_gates.sh reads it
define make_device
@mkdir -p $(@D)
$(call step,NVCC,$<)
$(quiet)$(NVCC) $(NVCC_FLAGS) $(call nvcc_targets,$<) -x cu -MMD -MP -MF $(@:.o=.d) -c $< -o $@ > $(@:.o=.log) 2>&1 || { cat $(@:.o=.log); exit 1; }
endef
$(BUILD)/device/%.cuda.o: %.cc $(BUILD)/flags-device
	$(make_device)
$(BUILD)/device/%.cuda.o: %.cu $(BUILD)/flags-device
	$(make_device)
# the same with launches that sleep around ready and wait, for tests/device/check.sh
$(BUILD)/jitter/%.cuda.o: %.cc $(BUILD)/flags-device
	$(make_device)
$(BUILD)/jitter/%.cuda.o: %.cu $(BUILD)/flags-device
	$(make_device)
$(BUILD)/jitter/%: NVCC_FLAGS += -DSB_JITTER
SMALL_OBJECTS := $(BUILD)/device/gpu/op/small.cuda.o $(BUILD)/jitter/gpu/op/small.cuda.o
$(SMALL_OBJECTS): NVCC_FLAGS += $(addprefix -include ,$(DEVICE_SMALL))
$(SMALL_OBJECTS): $(DEVICE_SMALL)

# compiled as C++: nvcc's CUDA already defines some of its functions
$(BUILD)/obj/tests/gpu/launches.o: tests/gpu/launches.cu $(BUILD)/flags-device
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(quiet)$(NVCC) $(NVCC_HOST) -std=c++17 -O1 -Xcompiler -Wall,-Wextra,-Werror -x c++ -MMD -MP -MF $(@:.o=.d) -c $< -o $@

define make_archive
$(call step,AR,$@)
$(quiet)rm -f $@ && $(AR) rcsD $(1) $@ $(filter %.o,$^)
endef
# archives of this build refer to the objects and copy none
THIN := --thin
OBJECTS.$(LIB) := $(call objects,$(LIB_SRC))
OBJECTS.$(TOOLS) := $(call objects,$(filter-out $(CLI_MAIN),$(TOOL_SRC)))
OBJECTS.$(GPU) := $(call objects,$(GPU_SRC)) $(call device_objects,$(DEVICE_SRC))
OBJECTS.$(GPU_STATIC) := $(call objects,$(sort $(GPU_SRC) $(NO_DEVICE_SRC)))
OBJECTS.$(HELP) := $(call objects,$(HELP_SRC))
$(LIB): $(OBJECTS.$(LIB)) $(BUILD)/members
	$(call make_archive,$(THIN))
$(TOOLS): $(OBJECTS.$(TOOLS)) $(BUILD)/members
	$(call make_archive,$(THIN))
$(GPU): $(OBJECTS.$(GPU)) $(BUILD)/members
	$(call make_archive,$(THIN))
$(GPU_STATIC): $(OBJECTS.$(GPU_STATIC)) $(BUILD)/members
	@mkdir -p $(@D)
	$(call make_archive,$(THIN))
$(HELP): $(OBJECTS.$(HELP)) $(BUILD)/members
	$(call make_archive,$(THIN))

API_OBJ := $(call objects,$(filter tools/api/%,$(TOOL_SRC)))
API_MAP := tools/api/samebit.map
$(SHARED): $(API_OBJ) $(TOOLS) $(LIB) $(API_MAP)
	$(call step,LD,$@)
	$(quiet)$(LINK) -shared -Wl,-soname,$(@F),--version-script=$(API_MAP),-z,defs,-z,nodelete,--as-needed $(filter %.o %.a,$^) \
	    $(API_LIBS) -o $@
	$(quiet)ln -sf $(@F) $(BUILD)/libsamebit.so
# one object with everything that is needed; only the names of the interface are visible, so that no others
# can collide
$(BUILD)/install/samebit.o: $(API_OBJ) $(TOOLS) $(LIB)
	@mkdir -p $(@D)
	$(call step,LD,$@)
	$(quiet)$(CC) $(EXTRA) -r -nostdlib $(filter %.o %.a,$^) -o $@ && $(OBJCOPY) --localize-hidden $@
$(STATIC): $(BUILD)/install/samebit.o
	$(call make_archive)

# link ARCHIVES,LIBRARIES: links a program again if one of its own objects changes, and not whenever an
# archive does. The linker prints the objects that it took, and $@.d names them. The archives are built
# before, in an order in which each may use the later ones.
# ($@.d may name an object of the last link whose source no longer exists)
own_objects = $(foreach object,$(filter-out $(foreach archive,$(1),$(OBJECTS.$(archive))),$(filter %.o,$^)),\
    $(if $(wildcard $(object:$(BUILD)/obj/%.o=%.c*)),$(object)))
define link
@mkdir -p $(@D)
$(call step,LD,$@)
$(quiet)$(LINK) -Wl,-t $(call own_objects,$(1)) $(1) $(2) -o $@ > $@.taken $(if $(WARNED),2> $(WARNED)) || { cat $(or $(WARNED),$@.taken); exit 1; }
@awk -v obj='$(BUILD)/obj/' -v or='$(1)' 'index($$0, obj) == 1 && /\.o$$/ { had = had " " $$0; rules = rules $$0 ":\n" } \
    index($$0, obj "ref/") == 1 { lib = 1 } END { printf "$@:%s\n%s", lib ? had : " " or, lib ? rules : "" }' \
    $@.taken > $@.d && rm $@.taken
endef
$(PROGRAM): $(call objects,$(CLI_MAIN)) | $(TOOLS) $(GPU) $(LIB)
	$(call link,$(TOOLS) $(GPU) $(LIB),$(LIBS) $(NVCC_LIBS))
# One file for any Linux: the same objects, and no library is loaded at start. The linker warns of dlopen,
# which bench does not call there, and of functions of libcrypto that look up hosts, which nothing calls.
# These warnings go into a file.
$(STATIC_PROGRAM): LINK += -static -s
$(STATIC_PROGRAM): WARNED = $@.warned
$(STATIC_PROGRAM): $(call objects,$(CLI_MAIN)) | $(TOOLS) $(GPU_STATIC) $(LIB)
	$(call link,$(TOOLS) $(GPU_STATIC) $(LIB),$(LIBS))
# the libraries in it, with versions and licenses
$(STATIC_PROGRAM).spdx.json: $(STATIC_PROGRAM) tools/pack/spdx.sh tools/pack/contents.def
	@bash tools/pack/spdx.sh $< > $@.partial && mv $@.partial $@
$(BUILD)/tests/gpu/samebit_launches: $(call objects,$(CLI_MAIN))
$(BUILD)/tests/gpu/device_ops_launches: $(call objects,tests/gpu/device_ops.c)
$(LAUNCHES): $(BUILD)/obj/tests/gpu/launches.o | $(HELP) $(TOOLS) $(GPU) $(LIB)
	$(call link,$(HELP) $(TOOLS) $(GPU) $(LIB),$(LIBS))
# its device objects come before those of the archive
$(JITTER): $(call objects,tests/gpu/device_ops.c) $(JITTER_OBJECTS) | $(HELP) $(TOOLS) $(GPU) $(LIB)
	$(call link,$(HELP) $(TOOLS) $(GPU) $(LIB),$(LIBS) $(NVCC_LIBS))
$(BUILD)/bench: $(call objects,$(BENCH_SRC)) | $(TOOLS) $(LIB)
	$(call link,$(TOOLS) $(LIB),$(LIBS) -lm)
$(BUILD)/tests/arith_digest: $(call objects,$(DIGEST_SRC)) | $(LIB)
	$(call link,$(LIB),)
# tests and fuzzers; those that run the whole program, or kernels, are linked with all of it
HAS_GPU := $(addprefix $(BUILD)/,suites/fault suites/gpu tests/fault/% tests/gpu/% tests/fuzz/fuzz_bundle \
    tests/fuzz/fuzz_command)
$(filter $(HAS_GPU),$(SUITE_BIN) $(TEST_BIN) $(FUZZ_BIN)): | $(GPU)
define link_test
$(call link,$(HELP) $(TOOLS) $(if $(filter $(HAS_GPU),$@),$(GPU)) $(LIB),$(TEST_LIBS) $(if $(filter $(HAS_GPU),$@),$(NVCC_LIBS)))
endef
$(foreach suite,$(SUITES),$(eval $(BUILD)/suites/$(suite): $(call objects,$(call suite_sources,$(suite)))))
$(SUITE_BIN): $(call objects,$(SUITE_MAIN)) $(BUILD)/suites/members | $(HELP) $(TOOLS) $(LIB)
	$(link_test)
$(FUZZ_BIN): $(BUILD)/%: $(BUILD)/obj/%.o $(call objects,$(FUZZ_DRIVER)) | $(HELP) $(TOOLS) $(LIB)
	$(link_test)
$(filter-out %/arith_digest,$(TEST_BIN)): $(BUILD)/%: $(BUILD)/obj/%.o | $(HELP) $(TOOLS) $(LIB)
	$(link_test)
# Replacing calls at link time (--wrap) affects a whole program. Therefore these have their own mains.
# check/test_decoding: tests a wrong decoder, which it plants
$(BUILD)/tests/check/test_decoding: LINK += -Wl,--wrap=sb_matrix_wide
# unit/test_pool: threads that cannot be started
$(BUILD)/tests/unit/test_pool: LINK += -Wl,--wrap=pthread_create
# fault/test_sweep: the calls that sweep_calls.c lets fail; -z now: its many children need not look for symbols
$(BUILD)/tests/fault/test_sweep: LINK += -Wl,-z,now $(addprefix -Wl$(comma)--wrap=,open write fsync rename renameat2 mkdir rmdir \
    unlink link symlink flock stat lstat fstat read pread mmap opendir readdir malloc calloc realloc posix_memalign \
    open_memstream pthread_create)
$(BUILD)/tests/fault/test_sweep: $(call objects,tests/fault/sweep_calls.c)
# all of fuzz/: detects reads behind the end of a file
$(FUZZ_BIN): LINK += $(addprefix -Wl$(comma)--wrap=,sb_map_open sb_map_close madvise)
$(FUZZ_BIN): $(call objects,tests/fuzz/guarded_map.c)
# fuzz_command: watches how far the parser came, and which files are written
$(BUILD)/tests/fuzz/fuzz_command: LINK += $(addprefix -Wl$(comma)--wrap=,sb_parse open rename renameat2 mkdir rmdir unlink \
    link symlink)
$(BUILD)/tests/fuzz/fuzz_command: $(call objects,tests/fuzz/command_guard.c)
$(filter $(call binaries,$(DEVICE_TEST_SRC)),$(TEST_BIN)): $(DEVICE_TEST_KERNELS)

-include $(addsuffix .d,$(PROGRAM) $(STATIC_PROGRAM) $(LAUNCHES) $(JITTER) $(BUILD)/bench $(SUITE_BIN) $(TEST_BIN) $(FUZZ_BIN))
# a program without a list of its objects, such as one linked by an older Makefile, is linked again
$(foreach program,$(PROGRAM) $(STATIC_PROGRAM) $(LAUNCHES) $(JITTER) $(BENCH_BIN) $(SUITE_BIN) $(TEST_BIN) $(FUZZ_BIN),\
    $(if $(wildcard $(program).d),,$(eval $(program): FORCE)))
-include $(patsubst %.o,%.d,$(call objects,$(ALL_SRC)) $(call device_objects,$(DEVICE_SRC)) $(DEVICE_TEST_KERNELS) $(JITTER_OBJECTS) $(BUILD)/obj/tests/gpu/launches.o)

# --- installing ---------------------------------------------------------------------------------------
# RUN=qemu-aarch64: the command that runs the program here, if it is built for another machine
RUN :=
COMMANDS = $(shell sed -n 's/^SB_COMMAND.\([a-z]*\),.*/\1/p' tools/cli/commands.def)
SHARE = $(DESTDIR)$(PREFIX)/share
MAN = $(SHARE)/man/man1
COMPLETION.bash = bash-completion/completions/samebit
COMPLETION.zsh = zsh/site-functions/_samebit
COMPLETION.fish = fish/vendor_completions.d/samebit.fish
SHELLS := bash zsh fish
define newline


endef
LIBRARY_VERSION = $(shell sed -n 's/^.define SAMEBIT_VERSION "\(.*\)"/\1/p' ref/samebit.h)
define install_files
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(LIBDIR)/pkgconfig'
	install $(PROGRAM) '$(DESTDIR)$(PREFIX)/bin'
	install -m 644 ref/samebit.h '$(DESTDIR)$(PREFIX)/include'
	install $(SHARED) '$(DESTDIR)$(LIBDIR)'
	ln -sf $(notdir $(SHARED)) '$(DESTDIR)$(LIBDIR)/libsamebit.so'
	install -m 644 $(STATIC) '$(DESTDIR)$(LIBDIR)'
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(LIBRARY_VERSION)|; s|@LIBS@|-pthread $(API_LIBS)|' \
	    tools/api/samebit.pc.in > '$(DESTDIR)$(LIBDIR)/pkgconfig/samebit.pc'
	install -d '$(MAN)' $(foreach shell,$(SHELLS),'$(dir $(SHARE)/$(COMPLETION.$(shell)))')
	$(RUN) $(PROGRAM) help --man > '$(MAN)/samebit.1'
	$(foreach command,$(COMMANDS),$(RUN) $(PROGRAM) help --man $(command) > '$(MAN)/samebit-$(command).1'$(newline)	)
	$(foreach shell,$(SHELLS),$(RUN) $(PROGRAM) help --completion $(shell) > '$(SHARE)/$(COMPLETION.$(shell))'$(newline)	)
endef
install: $(PROGRAM) $(SHARED) $(STATIC)
	$(install_files)
# installs what was built before, with any flags, and builds nothing
install-built:
	$(install_files)
uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/samebit' '$(DESTDIR)$(PREFIX)/include/samebit.h' \
	    '$(DESTDIR)$(LIBDIR)/libsamebit.so.0' '$(DESTDIR)$(LIBDIR)/libsamebit.so' \
	    '$(DESTDIR)$(LIBDIR)/libsamebit.a' '$(DESTDIR)$(LIBDIR)/pkgconfig/samebit.pc' '$(MAN)/samebit.1' \
	    $(foreach command,$(COMMANDS),'$(MAN)/samebit-$(command).1') \
	    $(foreach shell,$(SHELLS),'$(SHARE)/$(COMPLETION.$(shell))')

# --- targets ----------------------------------------------------------------------------------------
DEMO := $(BUILD)/demo/T1
demo: $(PROGRAM)
	@mkdir -p $(dir $(DEMO)) && rm -rf $(DEMO)
	@echo
	@echo '$$ samebit make $(DEMO) --preset T1 --seed 42'
	@$(PROGRAM) make $(DEMO) --preset T1 --seed 42
	@echo '$$ samebit run $(DEMO) --tokens 1,2,3 -n 4'
	@$(PROGRAM) run $(DEMO) --tokens 1,2,3 -n 4
	@echo '$$ samebit golden verify golden/runs/T1 $(DEMO)'
	@$(PROGRAM) golden verify golden/runs/T1 $(DEMO)
	@rm -rf $(DEMO)-nvfp4
	@echo '$$ samebit make $(DEMO)-nvfp4 --preset T1 --format nvfp4-ct --seed 42'
	@$(PROGRAM) make $(DEMO)-nvfp4 --preset T1 --format nvfp4-ct --seed 42
	@echo '$$ samebit check $(DEMO)-nvfp4 --against $(DEMO) --quiet'
	@$(PROGRAM) check $(DEMO)-nvfp4 --against $(DEMO) --quiet
	@rm -rf $(DEMO)-predictable
	@echo '$$ samebit make $(DEMO)-predictable --preset T1 --recipe predictable --seed 42'
	@$(PROGRAM) make $(DEMO)-predictable --preset T1 --recipe predictable --seed 42
	@echo '$$ samebit run $(DEMO)-predictable --tokens 1,2,3 -n 9 --draft 3'
	@$(PROGRAM) run $(DEMO)-predictable --tokens 1,2,3 -n 9 --draft 3
	@echo
	@echo 'A checkpoint with all kinds of layers was made from seed 42, the same bytes on every machine, and'
	@echo 'run by the reference. Every number is the correctly rounded value of an exact sum, so the tokens'
	@echo 'and the digests above are the ones that every compiler, processor and number of threads gives;'
	@echo 'golden verify compared a longer run with the one that is recorded under golden/runs. Then the same'
	@echo 'model in NVFP4 was compared, code by code, with the original it was made from: the file is intact,'
	@echo 'and so is its MTP head. Finally, a predictable model was run with drafts: the head'
	@echo 'proposes three at a time; tokens and states are the same as without drafts. docs/mtp.md explains it.'

# tools that some tests use are fetched while the others are built
.PHONY: optional
optional: | $(HAVE)
	@tools/deps clang cross remote shells || echo 'Tests that need these tools are SKIPPED.'

check: tests optional
	@BUILD=$(BUILD) bash tests/run_all.sh

check-all: tests optional
	@BUILD=$(BUILD) bash tests/run_all.sh --all

# every source compiled for macOS, with zig; nothing runs
check-macos: $(HAVE)
	@BUILD=$(BUILD) bash tests/macos.sh

# all 2^32 inputs of every function through MPFR, and ten million rows, in parts; a later call continues
# where it stopped; then every fuzz target for an hour (docs/fuzzing.md)
check-long: tests
	@BUILD=$(BUILD) bash tests/long.sh
	@BUILD=$(BUILD) BUDGET=3600 LIMIT=5400 bash tests/run_all.sh fuzz
	@BUILD=$(BUILD) BUDGET=3600 bash tests/asan.sh long

asan: tests
	@BUILD=$(BUILD) bash tests/run_all.sh asan

# the checks that need a device, in at most ten minutes; the bundle is the same for a machine without this
# tree
DEVICE_PROGRAMS := $(PROGRAM) $(BUILD)/tests/gpu/device_ops $(JITTER) $(if $(NVCC),$(call binaries,$(DEVICE_TEST_SRC)))
.PHONY: check-gpu gpu-bundle
check-gpu: $(DEVICE_PROGRAMS)
	@BUILD=$(BUILD) bash tests/device/check.sh
# ARCH=aarch64: for a DGX Spark, cross-compiled
gpu-bundle: $(if $(ARCH),$(HAVE),$(DEVICE_PROGRAMS))
	@BUILD=$(BUILD) bash tests/device/bundle.sh $(BUILD)/gpu-bundle$(addprefix -,$(ARCH)) $(ARCH)

# registers, shared memory, occupancy and loads of each kernel: docs/gpu-kernels.md
.PHONY: kernels
kernels: $(PROGRAM) $(LAUNCHES) $(BUILD)/tests/gpu/cubin_opcodes
	@BUILD=$(BUILD) bash tests/gpu/device_gates.sh --table > $(BUILD)/gpu-kernels.partial
	@mv $(BUILD)/gpu-kernels.partial $(BUILD)/gpu-kernels.txt && cat $(BUILD)/gpu-kernels.txt

bench: $(BENCH_BIN) $(PROGRAM)
	@$(PROGRAM) make $(BUILD)/bench-T2 --preset T2 --replace > /dev/null
	$(BENCH_BIN) $(BUILD)/bench-T2
	$(BENCH_BIN) --check-made $(BUILD)/bench-check
	@rm -rf $(BUILD)/bench-check-*

fuzz: $(FUZZ_BIN) $(PROGRAM) $(LIBRARIES)
	@BUILD=$(BUILD) BUDGET=600 LIMIT=1200 bash tests/run_all.sh fuzz

# recorded runs; WRITE=1 records them anew, for a change of the specification and never for a failure
golden: tests
	@$(if $(WRITE),$(BUILD)/tests/fuzz/make_bad golden/bad && $(BUILD)/tests/fuzz/make_gate golden/gate)
	@BUILD=$(BUILD) bash tests/golden.sh $(if $(WRITE),--write)
	@bash tools/lint/manifest.sh $(if $(WRITE),--write)

# golden/hf, recorded anew from the real transformers (Python and the network), with the shares
golden-hf: tests
	@BUILD=$(BUILD) bash tools/gen/venv.sh $(BUILD)/venv-hf
	@BUILD=$(BUILD) bash tools/gen/record.sh golden/hf
	@BUILD=$(BUILD) bash tests/hf/shares.sh
	@bash tools/lint/manifest.sh --write
	@$(if $(WRITE),bash tools/lint/manifest.sh --write)

crosscheck: tests
	@BUILD=$(BUILD) bash tools/gen/crosscheck.sh

# Debian packages of the program and the library (debhelper)
deb: $(PROGRAM) $(SHARED) $(STATIC)
	@BUILD=$(BUILD) bash tools/pack/deb.sh

# these and the static program, installed on systems without a compiler; and the steps of the Containerfile (root and
# debootstrap)
check-install: static deb wheel
	@BUILD=$(BUILD) bash tools/pack/check.sh
	@BUILD=$(BUILD) bash tools/pack/container.sh

# the pages as HTML, with every link followed (lowdown)
site:
	@BUILD=$(BUILD) bash tools/pack/site.sh

# wheels of the package with the program, for x86-64 and AArch64 (Python and the network); ARCH=aarch64-cuda: one with
# the kernels, for a DGX Spark
wheel:
	@BUILD=$(BUILD) bash tools/py/wheel.sh $(ARCH)

# environments of real engines; make crosscheck runs those that exist (docs/engines.md)
engines:
	@BUILD=$(BUILD) bash tools/gen/engines/make.sh

format:
	$(shell tools/deps --clang-format) -i $(FORMATTED)

info: $(HAVE)
	@echo 'compiler  $(CC): '"$$($(CC) --version | head -n 1)"
	@echo 'compile   $(COMPILE)'
	@echo 'C++       $(COMPILE_CXX)'
	@echo 'link      $(LINK) $(LIBS)'
	@echo 'build     $(BUILD), make $(MAKE_VERSION)'
	@echo "machine   $$(uname -m), $$(nproc) processors, of" \
	    "$$(grep -m1 -oE '^(flags|Features).*' /proc/cpuinfo | \
	    grep -owE 'sse2|avx|avx2|fma|f16c|avx512f|asimd|sve' | sort -u | tr '\n' ' ')"
	@echo "kernels   SAMEBIT_ISA=$${SAMEBIT_ISA:-auto}"
	@tools/deps --list

# downloads (the Python environment, foreign libraries) stay; `rm -rf build` removes them, too
clean:
	@[ -e $(BUILD)/flags ] || { echo 'clean: $(BUILD) is not a build folder'; exit 1; }
	find $(BUILD) -mindepth 1 -maxdepth 1 ! -name 'venv-*' ! -name cross -exec rm -rf {} +

help:
	@echo 'make             the library and the program: $(LIB) $(PROGRAM)'
	@echo 'make lib         the libraries for other programs (ref/samebit.h): $(SHARED), and a static one'
	@echo 'make static      the program as one file that runs on any Linux of this architecture: $(STATIC_PROGRAM)'
	@echo 'make install     program, man pages, completion, header, libraries and pkg-config file under PREFIX; make uninstall removes them'
	@echo 'make demo        install what is missing, build, run the reference on a checkpoint made with seed 42'
	@echo 'make check       every test that needs no GPU; the last line counts them'
	@echo 'make check-all   the same at full length, and all 2^32 inputs of each function'
	@echo 'make check-macos every source compiled for macOS (zig); nothing has run there'
	@echo 'make check-gpu   on a machine with a GPU and nvcc: the kernels on it, in at most ten minutes once built'
	@echo 'make gpu-bundle  a folder for another machine that does the same where nothing is installed; ARCH=aarch64: for a DGX Spark'
	@echo 'make check-long  all 2^32 inputs of each function through MPFR, 10^7 rows, resumable, hours; then an hour of each fuzzer'
	@echo 'make asan        the tests under the address and undefined behaviour sanitizers'
	@echo 'make fuzz        the fuzzers, ten minutes each'
	@echo 'make kernels     registers, shared memory, occupancy and loads of each kernel, also in build/gpu-kernels.txt'
	@echo 'make bench       speed of single parts, on this machine (samebit bench cpu CKPT measures tokens and ops)'
	@echo 'make golden      verify the golden files; WRITE=1 writes them anew'
	@echo 'make golden-hf   record golden/hf anew from transformers (Python and the network)'
	@echo 'make crosscheck  against transformers (Python and the network; nothing else needs them)'
	@echo 'make check-install  the static program, wheel and packages on fresh Debian 12 and 13, and the steps of the Containerfile (root, debootstrap)'
	@echo 'make site        the pages as HTML: BUILD/site/index.html (lowdown)'
	@echo 'make deb         Debian packages: BUILD/deb/*.deb'
	@echo 'make wheel       BUILD/wheel/*.whl: pip install of the program, the library and the pytest plug-in (the network)'
	@echo 'make engines     vLLM, MLX, transformers, speculators and llama.cpp, for make crosscheck; prints sizes and minutes first'
	@echo 'make format      clang-format in place'
	@echo 'make info        the compiler, flags, libraries and tools that are used'
	@echo 'make clean       remove what was built'
	@echo 'Variables: BUILD=DIR CC=clang OPT=-O0 TEST_OPT=... COLD_OPT=... EXTRA=... NVCC=... V=1 (see Makefile)'
