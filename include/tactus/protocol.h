/*
 * The wire's constants: what a client and the broker must agree on. No functions.
 *
 * A client finds the broker in the environment variable TACTUS_BROKER_SOCKET:
 *   /path/to.sock            Unix stream socket
 *   tcp://host:port          plain TCP
 *   tls://host:port          TLS 1.2+
 *   stdio                    requests as marked lines on stderr, replies on stdin (runner only)
 * Requests are {"id","method","params"}, replies {"id","event","data"|"error"}; the client's first
 * byte chooses the framing of both directions (see broker/wire/framing.h).
 */
#ifndef TACTUS_PROTOCOL_H
#define TACTUS_PROTOCOL_H

#define TACTUS_ENV_SOCKET       "TACTUS_BROKER_SOCKET"
#define TACTUS_ENV_TLS_CA_FILE  "TACTUS_BROKER_TLS_CA_FILE"
#define TACTUS_ENV_TLS_INSECURE "TACTUS_BROKER_TLS_INSECURE"

/* A length prefix: exactly this many ASCII decimal digits, then '\n', then that many bytes. */
#define TACTUS_LENGTH_DIGITS 10
#define TACTUS_LENGTH_PREFIX (TACTUS_LENGTH_DIGITS + 1)

/* First-generation clients read lines of at most 64 KiB; a delta's text stays below half of it. */
#define TACTUS_DELTA_TEXT_MAX (32u * 1024u)

/* error.type: the broker's own */
#define TACTUS_E_BAD_REQUEST          "BadRequest"
#define TACTUS_E_MESSAGE_TOO_LARGE    "MessageTooLarge"
#define TACTUS_E_METHOD_NOT_FOUND     "MethodNotFound"
#define TACTUS_E_UNSUPPORTED_PROVIDER "UnsupportedProvider"
#define TACTUS_E_MODEL_NOT_ALLOWED    "ModelNotAllowed"
#define TACTUS_E_TOOL_NOT_ALLOWED     "ToolNotAllowed"
#define TACTUS_E_UNAUTHENTICATED      "Unauthenticated"
#define TACTUS_E_TOO_MANY_REQUESTS    "TooManyRequests"
#define TACTUS_E_BUDGET_EXCEEDED      "BudgetExceeded"
#define TACTUS_E_OVERLOADED           "Overloaded"
#define TACTUS_E_SHUTTING_DOWN        "ShuttingDown"
#define TACTUS_E_CANCELLED            "Cancelled"
#define TACTUS_E_INTERNAL             "InternalError"
#define TACTUS_E_NO_CONTROL_HANDLER   "NoControlHandler"
#define TACTUS_E_MCP_NOT_CONFIGURED   "MCPNotConfigured"

/* error.type: a provider's failure, by the names of the OpenAI SDK's exceptions */
#define TACTUS_E_API_BAD_REQUEST    "BadRequestError"
#define TACTUS_E_API_UNPROCESSABLE  "UnprocessableEntityError"
#define TACTUS_E_API_AUTHENTICATION "AuthenticationError"
#define TACTUS_E_API_PERMISSION     "PermissionDeniedError"
#define TACTUS_E_API_NOT_FOUND      "NotFoundError"
#define TACTUS_E_API_TIMEOUT        "APITimeoutError"
#define TACTUS_E_API_CONFLICT       "ConflictError"
#define TACTUS_E_API_RATE_LIMIT     "RateLimitError"
#define TACTUS_E_API_SERVER         "InternalServerError"
#define TACTUS_E_API_CONNECTION     "APIConnectionError"
#define TACTUS_E_API_RESPONSE       "APIResponseValidationError"
#define TACTUS_E_API_STATUS         "APIStatusError"

#endif
