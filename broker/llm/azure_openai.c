/*
 * The provider type `azure_openai`: OpenAI's chat completions at Azure's addresses, where the model
 * is the name of a deployment, with the key in a header of its own. Answers are read as OpenAI's.
 * Source: "Azure OpenAI in Azure AI Foundry Models REST API reference" (data plane inference).
 */
#include "llm/openai_private.h"

static enum err azure_build(const struct provider *p, const struct chat_request *request,
                            struct provider_http *out, struct failure *failure)
{
    buf_put_str(&out->url, p->base_url);
    buf_put_str(&out->url, "/openai/deployments/");
    enum err rc = provider_put_model(&out->url, request->model, failure);
    buf_put_str(&out->url, "/chat/completions?api-version=");
    buf_put_str(&out->url, p->api_version);
    return rc == ERR_OK ? openai_put_request(p, request, out) : rc;
}

static enum err azure_authorize(const struct provider *p, const struct provider_auth *auth,
                                struct provider_http *out, struct failure *failure)
{
    (void)p;
    return auth->key.n == 0 ? ERR_OK : provider_http_secret(out, "api-key", "", auth->key, failure);
}

const struct provider_ops provider_azure_openai = {
    .type = "azure_openai",
    .build = azure_build,
    .authorize = azure_authorize,
    .answer_new = openai_answer_new,
};
