/*
 * The table of configuration keys: names, types, ranges, defaults and their lines of documentation.
 * What a table cannot check is checked where the snapshot is made (config.c, config_listener.c,
 * config_admin.c).
 */
#include "gate/config_private.h"

#define KIB        UINT64_C(1024)
#define MIB        (1024 * KIB)
#define GIB        (1024 * MIB)
#define SECONDS(n) (UINT64_C(1000) * (n))
#define DAYS(n)    SECONDS(86400 * UINT64_C(n))

const char *const config_types[] = {"openai",  "azure_openai", "anthropic", "gemini",
                                    "bedrock", "builtin",      NULL};
static const char *const HALF_CLOSES[] = {"finish", "cancel", NULL};
static const char *const AUTHS[] = {"none", "required", NULL};
static const char *const PERIODS[] = {"total", "day", "month", NULL}; /* enum meter_period */
static const char *const WEB[] = {"http", "https", NULL};
static const char *const PROXIES[] = {"http", "https", "socks5", "socks5h", NULL};
static const char *const LEVELS[] = {"error", "warn", "info", "debug", NULL}; /* enum log_level */
static const char *const FORMATS[] = {"text", "json", NULL};                  /* enum log_format */
static const char *const NO[] = {"false", NULL}; /* a switch that cannot be turned on yet */

#define MAP_OF(keys_, type_)                                                                       \
    {                                                                                              \
        .keys = (keys_), .nkeys = sizeof(keys_) / sizeof((keys_)[0]), .size = sizeof(type_)        \
    }

// clang-format off
#define FIELD(key, member) CONF_FIELD(key, struct file, member)
static const struct conf_key BROKER_KEYS[] = {
    {FIELD("workers", workers), .type = CONF_UINT, .max = CONFIG_WORKERS_MAX, .fallback = "0",
     .doc = "Event loops, each a thread; 0: one for each CPU this process may use."},
    {FIELD("drain_timeout", drain_timeout), .type = CONF_DURATION, .max = DAYS(1),
     .fallback = "30", .doc = "How long streams in flight may still run after SIGTERM."},
};
static const struct conf_map BROKER = MAP_OF(BROKER_KEYS, struct file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct listener_file, member)
static const struct conf_key LISTENER_KEYS[] = {
    {FIELD("url", url), .type = CONF_STRING, .required = true,
     .doc = "unix:///PATH (or just /PATH), tcp://HOST:PORT or tls://HOST:PORT; port 0: any free one."},
    {FIELD("mode", mode), .type = CONF_MODE, .fallback = "0660",
     .doc = "Unix socket: its file mode, octal digits in quotes."},
    {FIELD("cert", cert), .type = CONF_STRING,
     .doc = "tls: file with the certificate chain, PEM."},
    {FIELD("key", key), .type = CONF_STRING,
     .doc = "tls: file with the private key, PEM."},
    {FIELD("client_ca", client_ca), .type = CONF_STRING,
     .doc = "tls: file with the CA that client certificates must come from; absent: none needed."},
    {FIELD("ca_file", ca_file), .type = CONF_STRING,
     .doc = "tls: file with the CA that clients verify the certificate by, told with grants of runs."},
    {FIELD("half_close", half_close), .type = CONF_ENUM, .choices = HALF_CLOSES,
     .doc = "After the client's half-close: finish its requests (Unix default) or cancel (tcp, tls)."},
    {FIELD("auth", auth), .type = CONF_ENUM, .choices = AUTHS, .fallback = "none",
     .doc = "none: everybody there has the listener's grant; required: a token, or a certificate."},
    {FIELD("grant", grant), .type = CONF_NAME,
     .doc = "auth none: name of the grant under which requests of this listener run."},
};
static const struct conf_map LISTENER = MAP_OF(LISTENER_KEYS, struct listener_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct admin_file, member)
static const struct conf_key ADMIN_KEYS[] = {
    {FIELD("listen", listen), .type = CONF_LIST_OF_STRING, .min = 1, .max = 16,
     .doc = "unix:///PATH (for root and the broker's own user) and tcp:// on a loopback address."},
    {FIELD("token", token), .type = CONF_SECRET,
     .doc = "What callers over TCP must show; needed with tcp://."},
    {FIELD("runs_directory", runs_directory), .type = CONF_STRING,
     .doc = "Where grants of runs have their sockets; absent: runs, beside the first Unix socket."},
};
static const struct conf_map ADMIN = MAP_OF(ADMIN_KEYS, struct admin_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct provider_file, member)
static const struct conf_key PROVIDER_KEYS[] = {
    {FIELD("name", name), .type = CONF_NAME, .required = true,
     .doc = "What clients call it: a model is NAME/MODEL."},
    {FIELD("type", type), .type = CONF_ENUM, .choices = config_types, .required = true,
     .doc = "openai (and everything compatible with it), azure_openai, anthropic, gemini, bedrock, or builtin (no network, deterministic)."},
    {FIELD("base_url", base_url), .type = CONF_URL, .choices = WEB,
     .doc = "Where its API is; absent: the provider's own, such as https://api.openai.com/v1."},
    {FIELD("keys", keys), .type = CONF_LIST_OF_SECRET, .max = 64,
     .doc = "Its keys, which take turns; absent: none is sent."},
    {FIELD("api_version", api_version), .type = CONF_NAME,
     .doc = "azure_openai: api-version of its URLs; absent: 2024-10-21."},
    {FIELD("region", region), .type = CONF_NAME,
     .doc = "bedrock: AWS region."},
    {FIELD("profile", profile), .type = CONF_STRING, .min = 1, .max = 200,
     .doc = "bedrock: profile of AWS's shared files; absent: AWS's usual chain of credentials."},
    {FIELD("ca_file", ca_file), .type = CONF_STRING,
     .doc = "File with the CAs to trust, PEM; absent: the system's."},
    {FIELD("proxy", proxy), .type = CONF_URL, .choices = PROXIES,
     .doc = "Proxy to go through; proxy variables of the environment are not obeyed."},
    {FIELD("stream_usage", stream_usage), .type = CONF_BOOL, .fallback = "true",
     .doc = "openai: ask for usage in streams (stream_options); false for servers that refuse it."},
};
static const struct conf_map PROVIDER = MAP_OF(PROVIDER_KEYS, struct provider_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct model_file, member)
static const struct conf_key MODEL_KEYS[] = {
    {FIELD("name", name), .type = CONF_STRING, .min = 1, .max = 200, .required = true,
     .doc = "What clients call it."},
    {FIELD("targets", targets), .type = CONF_LIST_OF_STRING, .min = 1, .max = 16, .required = true,
     .doc = "PROVIDER/MODEL, the first that works answers."},
};
static const struct conf_map MODEL = MAP_OF(MODEL_KEYS, struct model_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct routing_config, member)
static const struct conf_key ROUTING_KEYS[] = {
    {FIELD("retries", retries), .type = CONF_UINT, .max = 10, .fallback = "2",
     .doc = "How often one target is tried again, while nothing went to the client."},
    {FIELD("backoff", backoff), .type = CONF_DURATION, .max = SECONDS(60), .fallback = "0.5",
     .doc = "The first pause is up to this long, each further one up to twice as long."},
    {FIELD("max_backoff", max_backoff), .type = CONF_DURATION, .max = SECONDS(600), .fallback = "8",
     .doc = "No pause is longer, unless the provider asks for it."},
    {FIELD("max_retry_after", max_retry_after), .type = CONF_DURATION, .max = SECONDS(600),
     .fallback = "30", .doc = "A provider that asks for a longer pause is not waited for."},
    {FIELD("key_rest", key_rest), .type = CONF_DURATION, .max = SECONDS(86400), .fallback = "60",
     .doc = "Rest of a key that was refused, where there are others."},
    {FIELD("breaker_failures", breaker_failures), .type = CONF_UINT, .max = 1000, .fallback = "5",
     .doc = "Failures in a row, then a target is left out where there are others; 0: never."},
    {FIELD("breaker_rest", breaker_rest), .type = CONF_DURATION, .max = SECONDS(86400),
     .fallback = "30", .doc = "How long it is left out, before one call tries it again."},
};
static const struct conf_map ROUTING = MAP_OF(ROUTING_KEYS, struct routing_config);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct client_cert_file, member)
static const struct conf_key CLIENT_CERT_KEYS[] = {
    {FIELD("san", san), .type = CONF_STRING, .max = 512,
     .doc = "Glob of a name (DNS, e-mail, URI) in the client's certificate."},
};
static const struct conf_map CLIENT_CERT = MAP_OF(CLIENT_CERT_KEYS, struct client_cert_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct grant_file, member)
static const struct conf_key GRANT_KEYS[] = {
    {FIELD("name", name), .type = CONF_NAME, .required = true,
     .doc = "What listeners call it."},
    {FIELD("models", models), .type = CONF_LIST_OF_STRING, .max = 1024,
     .doc = "Globs of the models (PROVIDER/MODEL) that may be used; absent: none."},
    {FIELD("tools", tools), .type = CONF_LIST_OF_STRING, .max = 1024,
     .doc = "Globs of the tools that may be called; absent: none."},
    {FIELD("token", token), .type = CONF_SECRET,
     .doc = "What clients of a listener with auth required may show; 256 bits or more, please."},
    {FIELD("client_cert", client_cert), .type = CONF_MAP, .map = &CLIENT_CERT,
     .doc = "Clients with such a certificate (of the listener's client_ca) have this grant."},
    {FIELD("rpm", rpm), .type = CONF_UINT, .max = 10000000, .fallback = "0",
     .doc = "Requests a minute, as many at once; 0: no limit."},
    {FIELD("tpm", tpm), .type = CONF_UINT, .max = 1000000000, .fallback = "0",
     .doc = "Tokens a minute, of prompts and replies; 0: no limit."},
    {FIELD("max_inflight", max_inflight), .type = CONF_UINT, .max = 10000000, .fallback = "0",
     .doc = "Requests at once; 0: no limit."},
    {FIELD("budget_usd", budget_usd), .type = CONF_NANO, .max = UINT64_C(1000000000000000),
     .doc = "US dollars for models; absent: no limit. One without a price is then refused."},
    {FIELD("budget_tokens", budget_tokens), .type = CONF_UINT, .max = UINT64_C(1000000000000),
     .doc = "Tokens for models; absent: no limit."},
    {FIELD("budget_period", budget_period), .type = CONF_ENUM, .choices = PERIODS,
     .fallback = "total", .doc = "The budgets are for ever (total), or for each day or month (UTC)."},
};
static const struct conf_map GRANT = MAP_OF(GRANT_KEYS, struct grant_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct usage_file, member)
static const struct conf_key USAGE_KEYS[] = {
    {FIELD("database", database), .type = CONF_STRING,
     .doc = "File of the ledger (SQLite), one row a request; absent: none is kept."},
    {FIELD("retention", retention), .type = CONF_DURATION, .max = DAYS(36500), .fallback = "400d",
     .doc = "How long its rows are kept; 0: for ever."},
};
static const struct conf_map USAGE = MAP_OF(USAGE_KEYS, struct usage_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct prices_file, member)
static const struct conf_key PRICES_KEYS[] = {
    {FIELD("file", file), .type = CONF_STRING,
     .doc = "YAML file with USD per million tokens (deploy/prices.example.yml); absent: none known."},
};
static const struct conf_map PRICES = MAP_OF(PRICES_KEYS, struct prices_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct limits, member)
static const struct conf_key LIMITS_KEYS[] = {
    {FIELD("max_connections", max_connections), .type = CONF_UINT, .max = 10000000, .fallback = "0",
     .doc = "Connections at once; 0: (descriptor limit - 200) / 2, at least 16."},
    {FIELD("max_message_bytes", max_message_bytes), .type = CONF_SIZE, .min = 64, .max = GIB,
     .fallback = "100MiB", .doc = "Largest message of a client."},
    {FIELD("max_reply_bytes", max_reply_bytes), .type = CONF_SIZE, .min = 64, .max = GIB,
     .fallback = "64MiB", .doc = "Largest reply of a provider."},
    {FIELD("max_buffered_bytes", max_buffered_bytes), .type = CONF_SIZE, .min = 64 * KIB,
     .max = 1024 * GIB, .fallback = "1GiB",
     .doc = "Bytes held over all connections; then new requests get Overloaded."},
    {FIELD("max_json_depth", max_json_depth), .type = CONF_UINT, .min = 1, .max = 1024,
     .fallback = "128", .doc = "Arrays and objects of a message open at once."},
    {FIELD("max_inflight_per_connection", max_inflight_per_connection), .type = CONF_UINT,
     .min = 1, .max = 1000000, .fallback = "64", .doc = "Requests in flight on one connection."},
    {FIELD("max_inflight", max_inflight), .type = CONF_UINT, .min = 1, .max = 10000000,
     .fallback = "10000", .doc = "Requests in flight over all connections."},
    {FIELD("handshake_timeout", handshake_timeout), .type = CONF_DURATION, .min = 1,
     .max = DAYS(1), .fallback = "10", .doc = "For the TLS handshake of a client."},
    {FIELD("first_byte_timeout", first_byte_timeout), .type = CONF_DURATION, .min = 1,
     .max = DAYS(1), .fallback = "10", .doc = "For the first byte of a new connection."},
    {FIELD("request_timeout", request_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(1),
     .fallback = "30", .doc = "For the rest of a message that has begun."},
    {FIELD("idle_timeout", idle_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(7),
     .fallback = "600", .doc = "For a connection without requests."},
    {FIELD("connect_timeout", connect_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(1),
     .fallback = "10", .doc = "For connecting to a provider."},
    {FIELD("provider_first_byte_timeout", provider_first_byte_timeout), .type = CONF_DURATION,
     .min = 1, .max = DAYS(1), .fallback = "120", .doc = "For a provider's first byte."},
    {FIELD("stall_timeout", stall_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(1),
     .fallback = "120", .doc = "Between two bytes of a provider's reply."},
    {FIELD("total_timeout", total_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(7),
     .fallback = "1800", .doc = "For a whole request."},
};
static const struct conf_map LIMITS = MAP_OF(LIMITS_KEYS, struct limits);

static const struct conf_key EVENTS_KEYS[] = {
    {FIELD("max_event_bytes", max_event_bytes), .type = CONF_SIZE, .min = 64, .max = 64 * MIB,
     .fallback = "1MiB", .doc = "Largest event of a client."},
};
static const struct conf_map EVENTS = MAP_OF(EVENTS_KEYS, struct limits);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct file, member)
static const struct conf_key LOG_KEYS[] = {
    {FIELD("level", log_level), .type = CONF_ENUM, .choices = LEVELS, .fallback = "info",
     .doc = "error, warn, info or debug."},
    {FIELD("format", log_format), .type = CONF_ENUM, .choices = FORMATS, .fallback = "json",
     .doc = "json (one object a line) or text (for people)."},
    {FIELD("prompts", log_prompts), .type = CONF_ENUM, .choices = NO, .fallback = "false",
     .doc = "Prompts and replies are never logged; there is no audit log that could have them yet."},
};
static const struct conf_map LOG = MAP_OF(LOG_KEYS, struct file);

/* Sections whose keys fill struct file itself lie at offset 0. */
static const struct conf_key FILE_KEYS[] = {
    {.name = "broker", .size = sizeof(struct file), .type = CONF_MAP, .map = &BROKER,
     .doc = "The process."},
    {FIELD("listeners", listeners), .type = CONF_LIST_OF_MAP, .map = &LISTENER, .required = true,
     .min = 1, .max = 256, .doc = "Where clients connect."},
    {FIELD("admin", admin), .type = CONF_MAP, .map = &ADMIN,
     .doc = "The admin API over HTTP; absent: there is none."},
    {FIELD("providers", providers), .type = CONF_LIST_OF_MAP, .map = &PROVIDER, .min = 1,
     .max = 256, .doc = "Where models are; absent: one of type builtin, named builtin."},
    {FIELD("models", models), .type = CONF_LIST_OF_MAP, .map = &MODEL, .max = 256,
     .doc = "Names of ours for models, each with the targets that are tried in order."},
    {FIELD("routing", routing), .type = CONF_MAP, .map = &ROUTING,
     .doc = "When a call is tried again."},
    {FIELD("grants", grants), .type = CONF_LIST_OF_MAP, .map = &GRANT, .min = 1, .max = 1024,
     .doc = "Who may use what."},
    {FIELD("prices", prices), .type = CONF_MAP, .map = &PRICES,
     .doc = "What models cost, for budgets in money and the ledger."},
    {FIELD("usage", usage), .type = CONF_MAP, .map = &USAGE,
     .doc = "Who used what."},
    {FIELD("limits", limits), .type = CONF_MAP, .map = &LIMITS,
     .doc = "Sizes as 4096, 64KiB, 100MiB; times in seconds, or as 500s, 10m, 1h, 1d."},
    {FIELD("events", limits), .type = CONF_MAP, .map = &EVENTS,
     .doc = "What clients report."},
    {.name = "log", .size = sizeof(struct file), .type = CONF_MAP, .map = &LOG,
     .doc = "The log, on stderr."},
};
static const struct conf_map FILE_MAP = MAP_OF(FILE_KEYS, struct file);
#undef FIELD
// clang-format on

const struct conf_map *config_keys(void)
{
    return &FILE_MAP;
}
