#!/bin/sh
# Which room includes which (an arrow points one way only), and which file sees which third-party
# library: ARCHITECTURE.md.
set -eu
# shellcheck source=tests/lint/common.sh
. "$(dirname "$0")/common.sh"

# "file:line:include "x/y.h"" -> "file line x/y.h", literals kept.
includes() {
    c_files broker runner include | code_only keep_strings=1 |
        sed -nE 's/^([^:]+):([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*["<]([^">]+)[">].*/\1 \2 \3/p'
}

check_tree() {
    includes | awk '
    BEGIN {
        # A room may include itself and rooms of a lower rank. Rooms of one rank do not see each other.
        split("base net gate ledger wire llm tools events http app", order, " ")
        split("1 2 3 3 4 5 5 5 6 7", ranks, " ")
        for (i in order) {
            rank[order[i]] = ranks[i]
        }
        split("spec engine relay run commands", runner_order, " ")
        split("1 2 2 3 4", runner_ranks, " ")
        for (i in runner_order) {
            runner_rank[runner_order[i]] = runner_ranks[i]
        }
        # The command-line client stands apart from the server.
        may["ctl"] = "^(base|net)/"
        # The ledger knows nothing of requests and policies: it posts its answers to a loop.
        may["ledger"] = "^(base/|ledger/|net/loop\\.h$)"
        # header -> the files that may see it
        third["^uv\\.h$|^uv/"] = "^broker/net/"
        third["^openssl/"] = "^broker/(net/|gate/secret\\.c$)"
        third["^curl/"] = "^broker/net/http_client[a-z_]*\\.[ch]$"
        third["^microhttpd\\.h$"] = "^broker/http/httpd[a-z_]*\\.[ch]$"
        third["^archive(_entry)?\\.h$"] = "^runner/engine/tar\\.c$"
        third["^systemd/"] = "^broker/app/service\\.c$"
        third["^sqlite3(ext)?\\.h$"] = "^broker/ledger/"
        third["^yaml\\.h$"] = "^broker/base/conf[a-z_]*\\.c$"
        third["^(cjson/)?cJSON\\.h$"] = "^broker/(base/json\\.c$|(llm|tools|events|app|ctl)/|[a-z_]+\\.c$)"
    }
    function finding(why) {
        print $1 ":" $2 ": includes " $3 ": " why
    }
    function room(path,    part) {
        return split(path, part, "/") > 1 ? part[1] : ""
    }
    {
        for (header in third) {
            if ($3 ~ header && $1 !~ third[header]) {
                finding("only " third[header] " may see it")
            }
        }
        target = room($3)
        if ($1 ~ /^include\// && $3 !~ /^tactus\// && $3 !~ /^std[a-z]+\.h$/) {
            finding("include/ is contracts only")
        }
        if ($1 ~ /^runner\// && (target in rank) && target !~ /^(base|net)$/) {
            finding("the runner uses base and net only")
        }
        if ($3 ~ /_private\.h$/ && $1 !~ ("^(broker|runner)/" target "/")) {
            finding("private to its room")
        }
        if ($1 ~ /^runner\/[a-z]+\//) {
            own = room(substr($1, 8))
            if (own == "init") { # a static program of its own
                if (target != "" && target !~ /^(sys|linux)$/ && $3 !~ /^(tactus|init)\//) {
                    finding("init stands alone")
                }
            } else if (!(own in runner_rank)) {
                finding("room " own " of the runner has no rank in tests/lint/layers.sh")
            } else if ((target in runner_rank) && target != own &&
                       runner_rank[target] >= runner_rank[own]) {
                finding(own " stands below or beside " target)
            } else if (own == "spec" && target == "net" && $3 !~ /sha256/) {
                finding("spec decides and talks to nobody")
            }
        }
        if ($1 !~ /^broker\/[a-z]+\//) {
            next # the programs join all rooms
        }
        own = room(substr($1, 8))
        if (own in may) {
            if (((target in rank) || (target in may && target != own)) && $3 !~ may[own]) {
                finding("only " may[own] " from " own)
            }
        } else if (!(own in rank)) {
            finding("room " own " has no rank in tests/lint/layers.sh")
        } else if ((target in rank) && target != own && rank[target] >= rank[own]) {
            finding(own " stands below or beside " target)
        } else if (target == "ctl") {
            finding("above " own)
        }
    }'
}

self_test() {
    echo '#include "net/loop.h"' | sample bad broker/base/x.c
    echo '#include "wire/request.h"' | sample bad broker/gate/x.h
    echo '#include "llm/chat.h"' | sample bad broker/tools/x.c
    echo '#include "tools/mcp.h"' | sample bad broker/llm/x.c
    echo '#include "llm/chat.h"' | sample bad broker/wire/x.c
    echo '#  include "llm/chat.h"' | sample bad broker/wire/x.c
    echo '#include "wire/session.h"' | sample bad broker/ctl/x.c
    echo '#include "ctl/output.h"' | sample bad broker/llm/x.c
    echo '#include "app/broker.h"' | sample bad broker/llm/x.c
    echo '#include "app/broker.h"' | sample bad broker/ctl/x.c
    echo '#include "app/runs.h"' | sample bad broker/http/x.c
    echo '#include "http/httpd.h"' | sample bad broker/events/x.c
    echo '#include "events/bus.h"' | sample good broker/http/event_streams.c
    echo '#include "http/httpd.h"' | sample good broker/app/admin.c
    echo '#include <microhttpd.h>' | sample bad broker/http/admin_body.c
    echo '#include <microhttpd.h>' | sample bad broker/app/admin.c
    echo '#include <microhttpd.h>' | sample good broker/http/httpd_request.c
    echo '#include <microhttpd.h>' | sample good broker/http/httpd_private.h
    echo '#include <uv.h>' | sample bad broker/http/httpd.c
    echo '#include <uv.h>' | sample bad broker/app/x.c
    echo '#include <systemd/sd-daemon.h>' | sample bad broker/app/broker.c
    echo '#include <systemd/sd-daemon.h>' | sample good broker/app/service.c
    echo '#include "wire/session_private.h"' | sample bad broker/llm/x.c
    echo '#include "wire/session_private.h"' | sample bad broker/app/broker.c
    echo '#include "app/app_private.h"' | sample bad broker/broker_main.c
    echo '#include "events/bus.h"' | sample good broker/app/broker.c
    echo '#include "app/broker.h"' | sample good broker/broker_main.c
    echo '#include "base/err.h"' | sample bad include/tactus/x.h
    echo '#include "gate/grant.h"' | sample bad runner/x.c
    echo '#include "engine/engine.h"' | sample bad runner/spec/x.c
    echo '#include "engine/engine.h"' | sample bad runner/relay/x.c
    echo '#include "net/loop.h"' | sample bad runner/spec/x.c
    echo '#include "base/err.h"' | sample bad runner/init/x.c
    echo '#include <archive.h>' | sample bad runner/spec/x.c
    echo '#include "engine/engine.h"' | sample good runner/run/x.c
    echo '#include <archive.h>' | sample good runner/engine/tar.c
    echo '#include "base/err.h"' | sample bad broker/newroom/x.c
    echo '#include <uv.h>' | sample bad broker/wire/x.c
    echo '#include <uv.h>' | sample bad broker/broker_main.c
    echo '#include <openssl/evp.h>' | sample bad broker/base/redact.c
    echo '#include <openssl/ssl.h>' | sample bad broker/app/broker.c
    echo '#include <curl/curl.h>' | sample bad broker/net/stream.c
    echo '#include <curl/curl.h>' | sample bad broker/llm/router.c
    echo '#include <yaml.h>' | sample bad broker/gate/config.c
    echo '#include <sqlite3.h>' | sample bad broker/events/bus.c
    echo '#include <sqlite3.h>' | sample good broker/ledger/store.c
    echo '#include "ledger/ledger.h"' | sample bad broker/gate/x.c
    echo '#include "ledger/ledger.h"' | sample good broker/wire/x.c
    echo '#include "ledger/store.h"' | sample good broker/ledger/x.c
    echo '#include "net/stream.h"' | sample bad broker/ledger/x.c
    echo '#include "net/loop.h"' | sample good broker/ledger/x.c
    echo '#include "gate/grant.h"' | sample bad broker/ledger/x.c
    echo '#include "ctl/output.h"' | sample bad broker/ledger/x.c
    echo '#include <cjson/cJSON.h>' | sample bad broker/wire/request.c
    echo '#include <cjson/cJSON.h>' | sample bad broker/base/buf.c
    echo '#include "base/err.h"' | sample good broker/net/x.c
    echo '#include "wire/failure.h"' | sample good broker/llm/x.h
    echo '#include "wire/session_private.h"' | sample good broker/wire/request.c
    echo '#include "events/bus.h"' | sample good broker/app/broker.c
    echo '/* #include <uv.h> */' | sample good broker/wire/x.c
    echo '#include <uv.h>' | sample good broker/net/x.c
    echo '#include <curl/curl.h>' | sample good broker/net/http_client_request.c
    echo '#include <openssl/evp.h>' | sample good broker/gate/secret.c
    echo '#include <yaml.h>' | sample good broker/base/conf.c
    echo '#include <cjson/cJSON.h>' | sample good broker/llm/openai.c
    echo '#include <stdint.h>' | sample good include/tactus/x.h
}

lint_main "$@"
