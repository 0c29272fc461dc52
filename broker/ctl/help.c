/* What `tactus-brokerctl --help` and `tactus-brokerctl COMMAND --help` say: see help.h. */
#include "ctl/help.h"

#include "ctl/commands.h"
#include "net/admin_peer.h"
#include "tactus/protocol.h"

#define HELP_CLIENT                                                                                \
    "  --endpoint URL     /path, unix:///path, tcp://host:port or tls://host:port;\n"              \
    "                     default: $" TACTUS_ENV_SOCKET "\n"                                       \
    "  --ca FILE          trust these certificates (PEM) besides the system's;\n"                  \
    "                     default: $" TACTUS_ENV_TLS_CA_FILE "\n"
#define HELP_ADMIN                                                                                 \
    "  --admin URL        the admin API: /path, unix:///path or http://host:port, as the\n"        \
    "                     broker prints it at its start; default: $" ADMIN_PEER_ENV ",\n"          \
    "                     then " ADMIN_PEER_SOCKET "\n"
#define HELP_ALWAYS                                                                                \
    "  --json             show what the broker answers as it comes\n"                              \
    "  --timeout SECONDS  longest wait for the next event (default 600), or for an answer of\n"    \
    "                     the admin API (default 30); connecting takes no longer than that\n"      \
    "                     and 10 s\n"                                                              \
    "  --help             show this help\n"
#define HELP_COMMON "Options of a client's commands:\n" HELP_CLIENT HELP_ALWAYS
#define HELP_OPERATOR                                                                              \
    "Options of an operator's commands:\n" HELP_ADMIN HELP_ALWAYS "\n"                             \
    "Over a Unix socket the broker's own user and root may operate it. Over TCP a token is\n"      \
    "needed: $" ADMIN_PEER_ENV_TOKEN ", or #token=TOKEN at the end of the URL.\n"

const char ctl_help_program[] =
    "Usage: " CTL_NAME " [OPTIONS] COMMAND [ARGUMENTS]\n"
    "Talks to a tactus-broker, as its clients and as its operators do.\n"
    "\n"
    "Commands of a client:\n"
    "  chat TEXT          ask a model and show its answer as it comes\n"
    "  call TOOL [JSON]   call a tool on the broker's host and show its result\n"
    "  emit JSON|TEXT     hand an event to the broker\n"
    "  info               show version, providers, models, tools, methods and limits\n"
    "\n"
    "Commands of an operator:\n"
    "  status             show state, connections, configuration, providers and ledger\n"
    "  grants             show who may what, and what of it is used; make and revoke grants\n"
    "  usage              show requests, tokens and cost\n"
    "  reload             read the configuration, its secrets and certificates again\n"
    "  drain              take no new work, let what is in flight end, and stop\n"
    "\n"
    "Options:\n" HELP_CLIENT HELP_ADMIN HELP_ALWAYS "  --version          show the version\n"
    "\n" CTL_NAME " COMMAND --help tells more about a command.\n" TACTUS_ENV_TLS_INSECURE
    "=1 (true, yes) switches the check of certificates off.\n"
    "\n"
    "Exit codes: 0 done; 64 wrong command line; 65 request refused as wrong; 69 broker\n"
    "or provider not available; 70 internal error; 74 output cannot be written;\n"
    "75 try again later (rate limit, overload, time-out); 76 protocol error;\n"
    "77 not allowed; 78 the new configuration is refused; 130 interrupted.\n";

const char ctl_help_chat[] =
    "Usage: " CTL_NAME " chat [OPTIONS] TEXT...\n"
    "Asks a model. Its answer goes to stdout as it comes, a line about usage to stderr.\n"
    "A TEXT of - stands for what stdin has.\n"
    "\n"
    "  --model NAME       PROVIDER/MODEL, or a model of --provider; default: builtin/echo\n"
    "  --provider NAME    a provider of the broker's configuration\n"
    "  --system TEXT      a system message before it\n"
    "  --no-stream        the answer as a whole\n"
    "  --temperature N    passed on\n"
    "  --max-tokens N     passed on\n"
    "\n" HELP_COMMON "\n"
    "Examples:\n"
    "  " CTL_NAME " chat Hello there\n"
    "  " CTL_NAME " chat --model openai/gpt-4o --system 'Be brief.' 'What is a broker?'\n"
    "  " CTL_NAME " chat --model openai/gpt-4o 'Summarise this:' - <README.md\n";

const char ctl_help_call[] =
    "Usage: " CTL_NAME " call [OPTIONS] TOOL [JSON]\n"
    "Calls a tool on the broker's host. JSON is an object with its arguments (- reads it\n"
    "from stdin, none is {}). The result is JSON, indented on a terminal.\n"
    "\n" HELP_COMMON "\n"
    "Examples:\n"
    "  " CTL_NAME " call host.ping\n"
    "  " CTL_NAME " call host.echo '{\"n\":1}'\n"
    "  " CTL_NAME " call host.echo - <arguments.json\n";

const char ctl_help_emit[] =
    "Usage: " CTL_NAME " emit [OPTIONS] JSON|TEXT\n"
    "Hands an event to the broker: a JSON object as it is, any other text as the message of\n"
    "{\"event_type\":\"log\",\"message\":TEXT}. - reads it from stdin.\n"
    "\n" HELP_COMMON "\n"
    "Examples:\n"
    "  " CTL_NAME " emit 'Backup is done'\n"
    "  " CTL_NAME " emit '{\"event_type\":\"progress\",\"percent\":40}'\n";

const char ctl_help_info[] =
    "Usage: " CTL_NAME " info [OPTIONS]\n"
    "Shows what the broker offers this caller.\n"
    "\n" HELP_COMMON "\n"
    "Examples:\n"
    "  " CTL_NAME " info\n"
    "  " CTL_NAME " --endpoint tls://broker.example:8443 --ca ca.pem info --json\n";

const char ctl_help_status[] = "Usage: " CTL_NAME " status [OPTIONS]\n"
                               "Shows how the broker is.\n"
                               "\n" HELP_OPERATOR "\n"
                               "Examples:\n"
                               "  " CTL_NAME " status\n"
                               "  " CTL_NAME " --admin http://127.0.0.1:8081 status --json\n";

const char ctl_help_grants[] =
    "Usage: " CTL_NAME " grants [OPTIONS]\n"
    "       " CTL_NAME " grants create [OPTIONS]\n"
    "       " CTL_NAME " grants revoke [OPTIONS] ID\n"
    "Shows all grants; makes one for a run and shows its token, this once; revokes one:\n"
    "its requests in flight end. Grants of the configuration are changed there.\n"
    "\n"
    "Options of create:\n"
    "  --run NAME           the run that it is for; default: its id\n"
    "  --ttl SECONDS        how long it lives (default 60, at most 86400)\n"
    "  --models GLOB,…      models that may be asked; default: none\n"
    "  --tools GLOB,…       tools that may be called; default: none\n"
    "  --rpm N              requests a minute\n"
    "  --tpm N              tokens a minute\n"
    "  --budget-usd X       dollars that may be spent\n"
    "  --budget-tokens N    tokens that may be used\n"
    "  --max-inflight N     requests at once\n"
    "  --listener unix|tcp|tls\n"
    "                       a socket of its own; without, it is known by its token\n"
    "\n" HELP_OPERATOR "\n"
    "Examples:\n"
    "  " CTL_NAME " grants\n"
    "  " CTL_NAME " grants create --run nightly --models 'openai/*' --budget-usd 2\n"
    "  " CTL_NAME " grants create --tools 'host.*' --listener unix --json\n"
    "  " CTL_NAME " grants revoke qx7ap5l2m3n4o5p6q7r2s3t4u5\n";

const char ctl_help_usage[] =
    "Usage: " CTL_NAME " usage [OPTIONS]\n"
    "Shows what the ledger has: requests, tokens and cost. ~ stands before sums that\n"
    "hold estimates, - where no price is known.\n"
    "\n"
    "  --by LIST          a row for each run, grant, model, day, or a list of these\n"
    "  --since TIME       2026-12-31, or 2026-12-31T23:59:59Z\n"
    "  --until TIME       what is earlier\n"
    "\n" HELP_OPERATOR "\n"
    "Examples:\n"
    "  " CTL_NAME " usage --by grant,model\n"
    "  " CTL_NAME " usage --by day --since 2026-12-01 --until 2027-01-01\n";

const char ctl_help_reload[] =
    "Usage: " CTL_NAME " reload [OPTIONS]\n"
    "Has the broker read its configuration, secrets and certificates again. Requests in\n"
    "flight end under the old one. When the new one is refused (exit code 78), the reasons\n"
    "are shown and the old one stays in force.\n"
    "\n" HELP_OPERATOR "\n"
    "Example:\n"
    "  " CTL_NAME " reload\n";

const char ctl_help_drain[] =
    "Usage: " CTL_NAME " drain [OPTIONS]\n"
    "Has the broker take no new work, let what is in flight end, and stop.\n"
    "\n" HELP_OPERATOR "\n"
    "Example:\n"
    "  " CTL_NAME " drain\n";
