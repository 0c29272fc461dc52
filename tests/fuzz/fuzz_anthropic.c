/* The Anthropic reader on any bytes: fixtures/answer_fuzz.h. */
#include "fixtures/answer_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return answer_fuzz(&provider_anthropic, data, size);
}
