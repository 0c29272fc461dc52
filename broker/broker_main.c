/*
 * tactus-broker: command line, process hardening, and the order in which things are made and
 * unmade.
 */
#include "app/broker.h"
#include "app/dev.h"
#include "app/service.h"
#include "base/buf.h"
#include "base/log.h"
#include "net/http_client.h"
#include "tactus/version.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#define LISTEN_MAX 64
#define PRINT_MAX  ((size_t)16 * 1024 * 1024)

struct options {
    const char *config;
    const char *events;
    const char *listen[LISTEN_MAX];
    size_t nlisten;
    bool check;
    bool print;
    bool dev;
    bool allow_missing_keys;
};

static const char usage_text[] =
    "Usage: tactus-broker (--config FILE | --dev) [OPTION]...\n"
    "Holds provider keys and serves containers that hold none.\n"
    "\n"
    "  --config FILE         the configuration (see deploy/broker.example.yml)\n"
    "  --check-config        read it, say what is wrong, exit\n"
    "  --print-config        print what holds with it, defaults included, and exit; of secrets "
    "only\n"
    "                        where they come from\n"
    "  --dev                 no configuration: built-in provider, Unix, TCP and TLS on loopback,\n"
    "                        an admin API; prints each endpoint and, last, the CA file\n"
    "  --listen URL          one more listener: unix:///PATH or tcp://HOST:PORT, with --dev\n"
    "                        tls://HOST:PORT too (repeatable)\n"
    "  --events FILE         append every accepted event as a JSON line to FILE, - is stdout\n"
    "  --allow-missing-keys  start although a provider's key is missing; its calls are refused\n"
    "  --version             print the version\n"
    "  --help                print this\n"
    "\n"
    "Examples:\n"
    "  tactus-broker --dev\n"
    "  tactus-broker --config /etc/tactus/broker.yml --check-config\n"
    "  tactus-broker --config /etc/tactus/broker.yml --events /var/log/tactus/events.jsonl\n";

enum option_id {
    OPT_CONFIG = 256,
    OPT_CHECK,
    OPT_PRINT,
    OPT_DEV,
    OPT_LISTEN,
    OPT_EVENTS,
    OPT_ALLOW,
    OPT_VERSION,
    OPT_HELP
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"check-config", no_argument, NULL, OPT_CHECK},
    {"print-config", no_argument, NULL, OPT_PRINT},
    {"dev", no_argument, NULL, OPT_DEV},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"events", required_argument, NULL, OPT_EVENTS},
    {"allow-missing-keys", no_argument, NULL, OPT_ALLOW},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *what)
{
    fprintf(stderr, "tactus-broker: %s\nTry 'tactus-broker --help'.\n", what);
    return EX_USAGE;
}

#define GO_ON (-1) /* no exit code: the program runs on */

/* GO_ON or the exit code. */
static int take_option(struct options *o, int id)
{
    switch (id) {
    case OPT_CONFIG:
        o->config = optarg;
        return GO_ON;
    case OPT_CHECK:
        o->check = true;
        return GO_ON;
    case OPT_PRINT:
        o->print = true;
        return GO_ON;
    case OPT_DEV:
        o->dev = true;
        return GO_ON;
    case OPT_LISTEN:
        if (o->nlisten == LISTEN_MAX) {
            return usage_error("too many --listen");
        }
        o->listen[o->nlisten++] = optarg;
        return GO_ON;
    case OPT_EVENTS:
        o->events = optarg;
        return GO_ON;
    case OPT_ALLOW:
        o->allow_missing_keys = true;
        return GO_ON;
    case OPT_VERSION:
        puts("tactus-broker " TACTUS_VERSION);
        return EX_OK;
    case OPT_HELP:
        fputs(usage_text, stdout);
        return EX_OK;
    default:
        fputs("Try 'tactus-broker --help'.\n", stderr);
        return EX_USAGE;
    }
}

static int read_options(struct options *o, int argc, char **argv)
{
    for (int id = getopt_long(argc, argv, "", long_options, NULL); id != -1;
         id = getopt_long(argc, argv, "", long_options, NULL)) {
        int exit_code = take_option(o, id);
        if (exit_code != GO_ON) {
            return exit_code;
        }
    }
    if (optind < argc) {
        return usage_error("unexpected argument");
    }
    if (o->print && o->dev) {
        return usage_error("--print-config goes with --config");
    }
    if (o->dev == (o->config != NULL)) {
        return usage_error("give either --config FILE or --dev");
    }
    return GO_ON;
}

/* ---- the process ---- */

/* No core file, no reading of our memory by others of this user, as many descriptors as allowed. */
static void harden(void)
{
    struct rlimit none = {0, 0};
    struct rlimit files;
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)unsetenv("SSLKEYLOGFILE"); /* libcurl would write the keys of TLS sessions there */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

static int exit_code(enum err rc)
{
    return rc == ERR_CONFIG ? EX_CONFIG : EX_OSERR;
}

static int report(const struct error *e)
{
    fprintf(stderr, "tactus-broker: %s\n", e->msg);
    return exit_code(e->code);
}

static enum err read_config(const struct options *o, struct dev *dev, struct config **out,
                            struct error *e)
{
    enum err rc = o->dev ? config_dev(out, e) : config_read(o->config, out, e);

    if (rc == ERR_OK && o->dev) {
        rc = dev_init(dev, *out, e);
    }
    for (size_t i = 0; i < o->nlisten && rc == ERR_OK; i++) {
        bool dev_tls = o->dev && strncmp(o->listen[i], "tls://", 6) == 0;
        rc = config_add_listener(*out, o->listen[i], dev_tls ? dev->cert_file : NULL,
                                 dev_tls ? dev->key_file : NULL, e);
    }
    return rc;
}

static enum err load_secrets(const struct options *o, struct config *config, struct error *e)
{
    enum err rc = config_load_secrets(config, o->allow_missing_keys, e);

    if (rc == ERR_OK) {
        config_forget_env(config);
    }
    return rc;
}

static enum err serve(const struct options *o, struct service *service, struct config *config,
                      const struct dev *dev, struct error *e)
{
    const struct broker_options options = {.config_file = o->config,
                                           .events_file = o->events,
                                           .allow_missing_keys = o->allow_missing_keys,
                                           .service = service};
    struct broker *b = NULL;
    enum err rc = broker_new(config, &options, &b, e);

    config_unref(config); /* the broker has its own: a reload lets go of it */
    if (rc != ERR_OK) {
        return rc;
    }
    broker_print_endpoints(b, o->dev, stdout);
    if (o->dev) {
        puts(dev->ca_file);
        fflush(stdout);
    }
    rc = broker_run(b, e);
    broker_free(b);
    return rc;
}

/* Takes over the reference to `config`. */
static enum err run(const struct options *o, struct service *service, struct config *config,
                    const struct dev *dev, bool locked, struct error *e)
{
    log_setup(config->log_level, config->log_format, NULL);
    if (!locked) {
        log_warn("broker", LOG_MSG("memory of secrets cannot be locked: it may be swapped out"));
    }
    enum err rc = load_secrets(o, config, e);
    if (rc == ERR_OK) {
        rc = http_client_global_init(e);
    }
    if (rc != ERR_OK) {
        config_unref(config);
        return rc;
    }
    rc = serve(o, service, config, dev, e);
    http_client_global_fini();
    return rc;
}

static int print_config(const char *path)
{
    struct error e = {0};
    struct buf out;

    buf_init(&out, PRINT_MAX);
    enum err rc = config_print(path, &out, &e);
    if (rc == ERR_OK && (fwrite(out.p, 1, out.len, stdout) != out.len || fflush(stdout) != 0)) {
        rc = err_sys(&e, ERR_IO, errno, "cannot write to stdout");
    }
    buf_fini(&out);
    return rc == ERR_OK ? EX_OK : report(&e);
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct dev dev = {0};
    struct config *config = NULL;
    struct service *service = NULL;
    struct error e = {0};
    bool locked = false;

    int early = read_options(&o, argc, argv);
    if (early != GO_ON) {
        return early;
    }
    if (o.print) {
        return print_config(o.config);
    }
    enum err rc = service_new(&service, &e);
    if (rc == ERR_OK && !o.check) {
        rc = service_take_sockets(service, &e);
    }
    harden();
    rc = rc == ERR_OK ? secret_arena_init(&locked, &e) : rc;
    if (rc == ERR_OK) {
        rc = read_config(&o, &dev, &config, &e);
    }
    if (rc == ERR_OK && !o.check) {
        rc = run(&o, service, config, &dev, locked, &e);
        config = NULL; /* it was handed over */
    } else if (rc == ERR_OK) {
        printf("%s: ok\n", o.dev ? "--dev" : o.config);
    }
    config_unref(config);
    int code = rc == ERR_OK ? EX_OK : report(&e);
    service_free(service);
    dev_fini(&dev);
    return code;
}
