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

# V=1 shows the commands.
ifeq ($(V),1)
Q   :=
SAY := @:
else
Q   := @
SAY := @printf '  %-4s %s\n'
endif

PKGS := libuv openssl libcurl libcjson yaml-0.1 libmicrohttpd libarchive libsystemd sqlite3

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wformat=2 -Wvla -Wundef -Wcast-qual -Wwrite-strings -Werror
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Ibroker -Irunner
CFLAGS_common := -std=c11 -g $(WARN) -fstack-protector-strong -fPIE -fno-omit-frame-pointer
LDFLAGS_common := -pie -Wl,-z,relro,-z,now -Wl,--as-needed

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

PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
ALL_CFLAGS  = $(CFLAGS_common) $(CFLAGS_$(VARIANT)) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(LDFLAGS_common) $(LDFLAGS_$(VARIANT)) $(LDFLAGS)
LIBS        = $(PKG_LIBS) -lpthread -lm

# ---- sources, room by room: an arrow points one way only (ARCHITECTURE.md) ----
BASE   := err buf bufq arena text clock json_span json_walk json redact log conf conf_events conf_load conf_print conf_scalar
NET    := sha256 loop loop_write loop_signal loop_watch stream stream_tls tls tls_dev listener http_client http_client_request http_client_answer http_client_driver http_client_memory client driver fetch admin_peer aws_url aws_sign aws_profile aws_keys aws_environment aws_credentials aws_credentials_file aws_credentials_http
GATE   := secret secret_command prices meter grant grant_source grant_table config config_grant config_secrets config_keys config_provider config_listener config_admin
LEDGER := item schema store store_read ledger ledger_thread ledger_ask
WIRE   := failure framing session caller request methods
LLM    := neutral sse reply provider tool_names conversation conversation_content conversation_params openai openai_build openai_read openai_tools azure_openai gemini gemini_build gemini_config gemini_read anthropic anthropic_build anthropic_config anthropic_read call_id messages_put eventstream bedrock bedrock_build bedrock_config bedrock_read provider_error answer builtin providers aws_access attempt router charge chat_params chat
TOOLS  := tool_call mcp
EVENTS := emit control bus
HTTP   := httpd httpd_request admin_fault admin_auth admin_body event_streams
CTL    := output commands table operate operate_show help
APP    := broker worker snapshot reload aws_secrets self dev run_place grant_json runs runs_keep admin admin_operate service

SPEC   := owner quantity settings volumes environment create_request workspace tree ignore source_hash
ENGINE := engine engine_find engine_hints engine_place engine_image engine_container engine_exit engine_network progress registry_auth attach hijack frames tar
RELAY  := relay event_head result container_log stderr_lines
RUN    := outcome grants keeper shim events_tail run_prepare run_container run_sweep run_execute image_progress image_build console
CMD    := run run_options gc image

# libtactus.a: what both programs use; the other two: one program each.
BASE_SRC   := $(BASE:%=broker/base/%.c) $(NET:%=broker/net/%.c)
BROKER_SRC := $(GATE:%=broker/gate/%.c) $(LEDGER:%=broker/ledger/%.c) $(WIRE:%=broker/wire/%.c) $(LLM:%=broker/llm/%.c) \
              $(TOOLS:%=broker/tools/%.c) $(EVENTS:%=broker/events/%.c) $(HTTP:%=broker/http/%.c) $(CTL:%=broker/ctl/%.c) \
              $(APP:%=broker/app/%.c)
RUNNER_SRC := $(wildcard $(SPEC:%=runner/spec/%.c) $(ENGINE:%=runner/engine/%.c) \
              $(RELAY:%=runner/relay/%.c) $(RUN:%=runner/run/%.c) $(CMD:%=runner/commands/%.c))
LIB_SRC    := $(BASE_SRC) $(BROKER_SRC) $(RUNNER_SRC)
LIB        := $(B)/libtactus.a
BROKER_LIB := $(B)/libtactus-broker.a
RUNNER_LIB := $(B)/libtactus-runner.a

# PID 1 of containers. It stands alone: static, without libraries, sanitizers and coverage.
INIT     := init_main say fds options heartbeat child tree supervise
INIT_SRC := $(INIT:%=runner/init/%.c)
INIT_OBJ := $(INIT_SRC:%.c=$(B)/%.o)

PROGRAMS := $(B)/tactus-broker $(B)/tactus-brokerctl $(B)/tactus-runner
HELPERS  := $(B)/tactus-init # installed into libexec: programs start it, not people

UNIT_TESTS := $(wildcard tests/unit/test_*.c)
LOOP_TESTS := $(wildcard tests/loop/test_*.c)
FUZZERS    := $(wildcard tests/fuzz/fuzz_*.c)
UNIT_BIN := $(UNIT_TESTS:%.c=$(B)/%)
LOOP_BIN := $(LOOP_TESTS:%.c=$(B)/%)
FUZZ_BIN := $(FUZZERS:%.c=$(B)/%)
BENCH_BIN := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
# Test programs let each allocation of ours fail in turn: the linker puts torture.c before malloc.
WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup

.PHONY: all help clean bench check check-unit check-loop check-e2e check-engine tests programs fuzz-replay fuzz \
        check-asan check-tsan check-clang check-valgrind lint format format-check demo install cov dist

all: programs
programs: $(PROGRAMS) $(HELPERS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(LIB): $(BASE_SRC:%.c=$(B)/%.o)
$(BROKER_LIB): $(BROKER_SRC:%.c=$(B)/%.o)
$(RUNNER_LIB): $(RUNNER_SRC:%.c=$(B)/%.o)
$(LIB) $(BROKER_LIB) $(RUNNER_LIB):
	@rm -f $@
	$(SAY) AR $@
	$(Q)ar rcs $@ $^

$(B)/tactus-broker: $(B)/broker/broker_main.o $(BROKER_LIB) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(B)/tactus-runner: $(B)/runner/runner_main.o $(RUNNER_LIB) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(B)/tactus-brokerctl: $(B)/broker/brokerctl.o $(BROKER_LIB) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

INIT_CFLAGS = $(CFLAGS_common) $(if $(filter release,$(VARIANT)),$(CFLAGS_release),-O1) $(CFLAGS)
$(B)/runner/init/%.o: ALL_CFLAGS = $(INIT_CFLAGS)
$(B)/runner/init/%.o: CPPFLAGS := -D_GNU_SOURCE -Iinclude -Irunner
$(B)/tactus-init: $(INIT_OBJ)
	$(SAY) LINK $@
	$(Q)$(CC) $(INIT_CFLAGS) -static-pie -Wl,-z,relro,-z,now $(LDFLAGS) -o $@ $^

# ---- tests ----
CPPFLAGS_tests := -Itests
$(B)/tests/%.o: CPPFLAGS += $(CPPFLAGS_tests)
$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/tests/fixtures/torture.o $(BROKER_LIB) $(RUNNER_LIB) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(WRAP) -o $@ $^ $(LIBS) -lcmocka
$(B)/tests/unit/test_init_options: $(B)/runner/init/options.o
$(B)/tests/loop/%: $(B)/tests/loop/%.o $(B)/tests/fixtures/torture.o $(B)/tests/fixtures/peer.o $(BROKER_LIB) $(RUNNER_LIB) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(WRAP) -o $@ $^ $(LIBS) -lcmocka
$(B)/tests/fuzz/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/replay_main.o $(BROKER_LIB) $(RUNNER_LIB) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/bench/%: $(B)/tests/bench/%.o $(BROKER_LIB) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# One line a measurement: its name, nanoseconds per operation.
bench: $(BENCH_BIN)
	@for program in $(BENCH_BIN); do $$program || exit 1; done

-include $(wildcard $(B)/broker/*.d $(B)/broker/*/*.d $(B)/runner/*.d $(B)/runner/*/*.d $(B)/tests/*/*.d)
.SECONDARY:

# ---- checks, tools, packaging ----
TEST_BIN  := $(UNIT_BIN) $(LOOP_BIN) $(FUZZ_BIN)
C_FILES   := $(sort $(shell find broker runner include tests -name '*.[ch]' 2>/dev/null))
TIDY_SRC  := $(sort $(LIB_SRC) $(INIT_SRC) $(wildcard broker/*.c runner/*.c))
SH_FILES  := $(sort $(wildcard certs/*.sh deploy/*.sh tests/*.sh tests/*/*.sh tests/*/*/*.sh) .ci/run)
VERSION    = $(shell sed -n 's/.*TACTUS_VERSION "\(.*\)"/\1/p' include/tactus/version.h)
PREFIX    ?= /usr/local
FUZZ_SECONDS ?= 60
CFLAGS_clang := -O2
CFLAGS_cov   += -Wno-maybe-uninitialized # gcc says it of good code at -O0

.PHONY: check-ubsan format-check lint-banned lint-layers lint-length lint-tidy lint-cppcheck lint-shell

help:
	@echo 'make                  the programs, in build/release'
	@echo 'make demo             a broker over TLS, a chat streamed through it, its events, a clean stop'
	@echo 'make check            every test on the debug build: unit, loop, fuzz replay, end to end, engine'
	@echo 'make check-unit       one kind: check-unit, check-loop, fuzz-replay, check-e2e, check-engine'
	@echo 'make check-asan       every test under AddressSanitizer and UndefinedBehaviorSanitizer (clang)'
	@echo 'make check-tsan       every test under ThreadSanitizer (clang)'
	@echo 'make check-valgrind   unit tests under valgrind'
	@echo 'make check-clang      everything built by clang, warnings being errors'
	@echo 'make lint             format, banned functions, layers, lengths, clang-tidy, cppcheck, shellcheck'
	@echo 'make format           clang-format on every C file'
	@echo 'make bench            what single operations cost, in nanoseconds, on the release build'
	@echo 'make fuzz             each fuzz target for FUZZ_SECONDS (60) with libFuzzer (clang)'
	@echo 'make cov              line coverage of unit and loop tests, by file'
	@echo 'make install          DESTDIR, PREFIX (/usr/local)'
	@echo 'make dist             build/tactus-broker-$(VERSION).tar.gz from the last commit'
	@echo 'make clean            removes build/'
	@echo
	@echo 'Variables: VARIANT=release|debug|asan|tsan|cov (build/VARIANT), CC=gcc|clang'

# Tests run on the debug build unless VARIANT is given.
CHECKS := tests check check-unit check-loop check-e2e check-engine check-valgrind fuzz-replay
ifeq ($(origin VARIANT),file)
$(CHECKS):
	@$(MAKE) --no-print-directory VARIANT=debug $@
else
tests: $(TEST_BIN)
check: programs tests
	@sh tests/check.sh $(B) unit loop fuzz e2e engine
check-unit: $(UNIT_BIN)
	@sh tests/check.sh $(B) unit
check-loop: $(LOOP_BIN)
	@sh tests/check.sh $(B) loop
check-e2e: programs
	@sh tests/check.sh $(B) e2e
check-engine: programs
	@sh tests/check.sh $(B) engine
check-valgrind: $(UNIT_BIN)
	@TACTUS_WRAP='valgrind -q --error-exitcode=99 --leak-check=full' sh tests/check.sh $(B) unit
fuzz-replay: $(FUZZ_BIN)
	@sh tests/check.sh $(B) fuzz
endif

check-asan:
	@$(MAKE) --no-print-directory VARIANT=asan CC=clang check
check-ubsan: check-asan
check-tsan:
	@$(MAKE) --no-print-directory VARIANT=tsan CC=clang check
check-clang:
	@$(MAKE) --no-print-directory VARIANT=clang CC=clang programs tests

demo: programs
	@TACTUS_BUILD=$(B) sh deploy/demo.sh

# libFuzzer's main() takes the place of replay_main.c. What it finds goes to tests/fuzz/regression.
LIBFUZZER_BIN := $(FUZZERS:tests/fuzz/%.c=build/fuzz/libfuzzer/%)
ifeq ($(VARIANT),fuzz)
$(B)/libfuzzer/%: $(B)/tests/fuzz/%.o $(BROKER_LIB) $(RUNNER_LIB) $(LIB)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)
fuzz: $(LIBFUZZER_BIN)
	@sh tests/fuzz.sh $(B) $(FUZZ_SECONDS)
else
fuzz:
	@$(MAKE) --no-print-directory VARIANT=fuzz CC=clang fuzz
endif

cov:
	@find build/cov -name '*.gcda' -delete 2>/dev/null || true
	@$(MAKE) --no-print-directory VARIANT=cov CC=gcc check-unit
	@$(MAKE) --no-print-directory VARIANT=cov CC=gcc check-loop
	@sh tests/coverage.sh build/cov

lint: format-check lint-banned lint-layers lint-length lint-shell lint-cppcheck lint-tidy
	@echo 'lint: clean'

# The check first proves that it can fail.
lint-banned lint-layers lint-length:
	@sh tests/lint/$(@:lint-%=%).sh --self-test
	@sh tests/lint/$(@:lint-%=%).sh

lint-tidy:
	@sh tests/lint/tidy.sh $(TIDY_SRC) -- $(CPPFLAGS) $(shell pkg-config --cflags $(PKGS))

# Off: leaks, which clang's analyser sees better (memcpy of a pointer); cppcheck 2.10 cannot read a compound
# literal after `? :`.
lint-cppcheck:
	@cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 -j2 $(CPPFLAGS) \
	    --enable=warning,performance,portability --suppress=missingInclude \
	    --suppress=memleak --suppress=internalAstError $(TIDY_SRC)
	@echo 'cppcheck: clean'

lint-shell:
	@shellcheck -x $(wildcard $(SH_FILES))
	@echo 'shellcheck: clean'

format:
	clang-format -i $(C_FILES)
format-check:
	@clang-format --dry-run -Werror $(C_FILES)
	@echo 'clang-format: clean'

install: programs
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/tactus-broker
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/libexec/tactus-broker
	install -m 755 $(HELPERS) $(DESTDIR)$(PREFIX)/libexec/tactus-broker
	install -m 755 certs/make-certs.sh $(DESTDIR)$(PREFIX)/share/tactus-broker
	install -m 644 deploy/broker.example.yml README.md LICENSE $(DESTDIR)$(PREFIX)/share/tactus-broker
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d
	sed 's#^ExecStart=/usr/local/bin/#ExecStart=$(PREFIX)/bin/#' deploy/tactus-broker.service \
	    >$(DESTDIR)$(PREFIX)/lib/systemd/system/tactus-broker.service
	chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/tactus-broker.service
	install -m 644 deploy/tactus-broker.socket $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 644 deploy/tactus-broker.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/tactus-broker.conf

dist:
	@mkdir -p build
	git archive --format=tar.gz --prefix=tactus-broker-$(VERSION)/ -o build/tactus-broker-$(VERSION).tar.gz HEAD

clean:
	rm -rf build
