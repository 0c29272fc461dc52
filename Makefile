# tactus-broker: one non-recursive Makefile.
#
#   make                 release programs in build/release
#   make check           every test on the debug build
#   make check-asan      the same tests under AddressSanitizer and UndefinedBehaviorSanitizer (clang)
#   make check-tsan      the same tests under ThreadSanitizer
#   make demo            a broker over TLS, a streamed chat through it, its events, a clean stop
#   make help            the rest

VARIANT ?= release
ifeq ($(origin CC),default)
CC      := gcc
endif
B       := build/$(VARIANT)

PKGS := libuv openssl libcurl libcjson yaml-0.1

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wformat=2 -Wvla -Wundef -Wcast-qual -Wwrite-strings -Werror
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Ibroker
CFLAGS_common := -std=c11 -g $(WARN) -fstack-protector-strong -fPIE -fno-omit-frame-pointer
LDFLAGS_common := -pie -Wl,-z,relro,-z,now

CFLAGS_release := -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -DNDEBUG
CFLAGS_debug   := -O1
CFLAGS_asan    := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
LDFLAGS_asan   := -fsanitize=address,undefined
CFLAGS_tsan    := -O1 -fsanitize=thread
LDFLAGS_tsan   := -fsanitize=thread
CFLAGS_cov     := -O0 --coverage
LDFLAGS_cov    := --coverage
CFLAGS_fuzz    := -O1 -fsanitize=fuzzer-no-link,address,undefined
LDFLAGS_fuzz   := -fsanitize=address,undefined

ALL_CFLAGS  = $(CFLAGS_common) $(CFLAGS_$(VARIANT)) $(shell pkg-config --cflags $(PKGS)) $(CFLAGS)
ALL_LDFLAGS = $(LDFLAGS_common) $(LDFLAGS_$(VARIANT)) $(LDFLAGS)
LIBS        = $(shell pkg-config --libs $(PKGS)) -lpthread -lm

# ---- sources, room by room: an arrow points one way only (ARCHITECTURE.md) ----
BASE   := err buf bufq arena text clock json_span json redact log conf
NET    := loop stream stream_tls tls tls_dev listener http_client http_client_request http_client_answer http_client_driver http_client_memory client
GATE   := secret grant config
WIRE   := failure framing session request methods
LLM    := neutral sse reply provider openai openai_build openai_read openai_tools openai_error builtin router chat
TOOLS  := tool_call builtin_tools mcp
EVENTS := emit control bus
CTL    := output commands

LIB_SRC := $(BASE:%=broker/base/%.c) $(NET:%=broker/net/%.c) $(GATE:%=broker/gate/%.c) \
           $(WIRE:%=broker/wire/%.c) $(LLM:%=broker/llm/%.c) $(TOOLS:%=broker/tools/%.c) \
           $(EVENTS:%=broker/events/%.c) $(CTL:%=broker/ctl/%.c) broker/broker.c broker/dev.c
LIB_SRC := $(wildcard $(LIB_SRC))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
LIB     := $(B)/libtactus-broker.a

PROGRAMS := $(B)/tactus-broker $(B)/tactus-brokerctl

UNIT_TESTS := $(wildcard tests/unit/test_*.c)
LOOP_TESTS := $(wildcard tests/loop/test_*.c)
FUZZERS    := $(wildcard tests/fuzz/fuzz_*.c)
UNIT_BIN := $(UNIT_TESTS:%.c=$(B)/%)
LOOP_BIN := $(LOOP_TESTS:%.c=$(B)/%)
FUZZ_BIN := $(FUZZERS:%.c=$(B)/%)
# Test programs let each allocation of ours fail in turn: the linker puts torture.c before malloc.
WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup

.PHONY: all help clean check check-unit check-loop check-e2e tests programs fuzz-replay fuzz \
        check-asan check-tsan check-clang check-valgrind lint format format-check demo install cov dist

all: programs
programs: $(PROGRAMS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(LIB): $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $(LIB_OBJ)

$(B)/tactus-broker: $(B)/broker/broker_main.o $(LIB)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(B)/tactus-brokerctl: $(B)/broker/brokerctl.o $(LIB)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# ---- tests ----
CPPFLAGS_tests := -Itests
$(B)/tests/%.o: CPPFLAGS += $(CPPFLAGS_tests)
$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/tests/fixtures/torture.o $(LIB)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(WRAP) -o $@ $^ $(LIBS) -lcmocka
$(B)/tests/loop/%: $(B)/tests/loop/%.o $(B)/tests/fixtures/torture.o $(B)/tests/fixtures/peer.o $(LIB)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(WRAP) -o $@ $^ $(LIBS) -lcmocka
$(B)/tests/fuzz/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/replay_main.o $(LIB)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

-include $(wildcard $(B)/broker/*.d $(B)/broker/*/*.d $(B)/tests/*/*.d)
.SECONDARY:
