/* What conversation_read refuses, and in which words. */
#include "fixtures/conversation_bed.h"

#define CONTENT(list) M("{'role':'user','content':[" list "]}")
#define CALLS(list)   M(USER ",{'role':'assistant','tool_calls':[" list "]}")
#define DETAILS(list) M("{'role':'assistant','reasoning_details':[" list "]}")
#define URL_WORDS     "expected an http or https URL, or data:image/...;base64,..."

static const struct row refused_messages_rows[] = {
    {"{'messages':[]}", "messages must not be empty"},
    {"{'messages':7}", "messages: expected a list"},
    {"{}", "messages: expected a list"},
    {M(USER ",7"), "messages[1]: expected an object"},
    {M("{}"), "messages[0].role: expected a string"},
    {M("{'role':null}"), "messages[0].role: expected a string"},
    {M("{'role':'User'}"),
     "messages[0].role: expected system, developer, user, assistant or tool, not User"},
    {M("{'role':'us\\u0000er'}"),
     "messages[0].role: expected system, developer, user, assistant or tool, not us"},
    {M("{'role':'user'}"), "messages[0].content: expected a string or a list of parts"},
    {M("{'role':'user','content':null}"),
     "messages[0].content: expected a string or a list of parts"},
    {M("{'role':'system','content':{}}"),
     "messages[0].content: expected a string or a list of parts"},
    {M("{'role':'assistant','content':7}"),
     "messages[0].content: expected a string or a list of parts"},
    {M("{'role':'user','content':'a','content':'b'}"), "messages[0]: duplicate key"},
    {M("{'role':'user','r\\u006fle':'tool','content':'b'}"), "messages[0]: duplicate key"},
    {M("{'role':'assistant','refusal':7}"), "messages[0].refusal: expected a string"},
    {M("{'role':'assistant','audio':{'id':'a'}}"),
     "messages[0].audio: not supported (expected text)"},
    {CONTENT("'x'"), "messages[0].content[0]: expected an object"},
    {CONTENT("{}"), "messages[0].content[0].type: expected a string"},
    {CONTENT("{'type':'text','text':'a'},{'type':'text'}"),
     "messages[0].content[1].text: expected a string"},
    {CONTENT("{'type':'text','text':'a','text':'b'}"), "messages[0].content[0]: duplicate key"},
    {CONTENT("{'type':'refusal','refusal':null}"),
     "messages[0].content[0].refusal: expected a string"},
    {CONTENT("{'type':'text','text':''},{'type':'input_audio','input_audio':{}}"),
     "messages[0].content[1]: type is input_audio, which is not supported (expected text or "
     "image_url)"},
    {M("{'role':'system','content':[{'type':'file'}]}"),
     "messages[0].content[0]: type is file, which is not supported (expected text)"},
    {M("{'role':'assistant','content':[{'type':'image_url','image_url':'http://a'}]}"),
     "messages[0].content[0]: only a user or a tool may give an image"},
    {CONTENT("{'type':'image_url'}"),
     "messages[0].content[0].image_url: expected a string or an object"},
    {CONTENT("{'type':'image_url','image_url':{}}"),
     "messages[0].content[0].image_url.url: expected a string"},
    {CONTENT("{'type':'image_url','image_url':{'url':'a','url':'b'}}"),
     "messages[0].content[0].image_url: duplicate key"},
    {M(IMAGE("''")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'file:///etc/passwd'")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("{'url':'data:image/png;base64,'}")),
     "messages[0].content[0].image_url.url: " URL_WORDS},
    {M(IMAGE("'data:image/png;base64,=='")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:image/png;base64,QQ==='")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:image/png;base64,Q=Q='")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:image/png;base64,Q_Q-'")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:image/png;base64,QQ\\nQQ'")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:image/png,QQ'")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:image/;base64,QQ=='")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:image/p\\u0022g;base64,QQ=='")),
     "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:application/pdf;base64,QQ=='")),
     "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:;base64,QQ=='")), "messages[0].content[0].image_url: " URL_WORDS},
    {M(IMAGE("'data:'")), "messages[0].content[0].image_url: " URL_WORDS},
};

static void test_refused_messages(void **state)
{
    (void)state;
    EACH(refused_messages_rows, assert_refuses)
}

#define ARGUMENTS "messages[1].tool_calls[0].function.arguments: expected a JSON object"

static const struct row refused_calls_rows[] = {
    {M("{'role':'assistant','tool_calls':{}}"), "messages[0].tool_calls: expected a list"},
    {CALLS("7"), "messages[1].tool_calls[0]: expected an object"},
    {CALLS("{}"), "messages[1].tool_calls[0].function: expected an object"},
    {CALLS("{'type':'custom','custom':{}}"),
     "messages[1].tool_calls[0]: type is custom, which is not supported (expected function)"},
    {CALLS("{'id':7,'function':{}}"), "messages[1].tool_calls[0].id: expected a string"},
    {CALLS("{'type':7}"), "messages[1].tool_calls[0].type: expected a string"},
    {CALLS("{'id':'a','id':'b'}"), "messages[1].tool_calls[0]: duplicate key"},
    {CALLS("{'function':{'name':'a','name':'b'}}"),
     "messages[1].tool_calls[0].function: duplicate key"},
    {CALLS("{'function':{}}"), "messages[1].tool_calls[0].function.name: expected a string"},
    {CALLS("{'function':{'name':'f'}}"), ARGUMENTS},
    {CALLS("{'id':'c','type':'function','function':{'name':'f','arguments':{}}}"), ARGUMENTS},
    {CALLS("{'id':'c','type':'function','function':{'name':'f','arguments':null}}"), ARGUMENTS},
    {CALLS("{'id':'c','type':'function','function':{'name':'f','arguments':' '}}"), ARGUMENTS},
    {CALLS("{'id':'c','type':'function','function':{'name':'f','arguments':'[]'}}"), ARGUMENTS},
    {CALLS("{'id':'c','type':'function','function':{'name':'f','arguments':'{}{}'}}"), ARGUMENTS},
    {CALLS("{'id':'c','type':'function','function':{'name':'f','arguments':'{'}}"), ARGUMENTS},
    {CALLS("{'id':'c','type':'function','function':{'name':'f','arguments':'{}'}},{'id':'d','type':"
           "'function','function':{'name':'f','arguments':'null'}}"),
     "messages[1].tool_calls[1].function.arguments: expected a JSON object"},
    {M("{'role':'assistant','function_call':'f'}"),
     "messages[0].function_call: expected an object"},
    {M("{'role':'assistant','function_call':{'arguments':''}}"),
     "messages[0].function_call.name: expected a string"},
    {M("{'role':'assistant','function_call':{'name':'f','arguments':'7'}}"),
     "messages[0].function_call.arguments: expected a JSON object"},
    {M("{'role':'tool','content':'x'}"), "messages[0].tool_call_id: expected a string"},
    {M("{'role':'tool','tool_call_id':7}"), "messages[0].tool_call_id: expected a string"},
    {M("{'role':'function','content':'x'}"), "messages[0].name: expected a string"},
    {M("{'role':'tool','tool_call_id':'n\\u006f','content':'x'}"),
     "messages[0].tool_call_id: no call before it has the id no"},
    {M("{'role':'tool','tool_call_id':'c','content':'x'},{'role':'assistant','tool_calls':[{'id':'"
       "c','type':'function','function':{'name':'f','arguments':''}}]}"),
     "messages[0].tool_call_id: no call before it has the id c"},
    {M("{'role':'assistant','tool_calls':[{'id':'c','type':'function','function':{'name':'f','"
       "arguments':''}}]},{'role':'tool','tool_call_id':'c','content':''},{'role':'tool','tool_"
       "call_id':'cc','content':''}"),
     "messages[2].tool_call_id: no call before it has the id cc"},
    {M("{'role':'assistant','reasoning_details':{}}"),
     "messages[0].reasoning_details: expected a list"},
    {DETAILS("'x'"), "messages[0].reasoning_details[0]: expected an object"},
    {DETAILS("{}"), "messages[0].reasoning_details[0].type: expected a string"},
    {DETAILS(
         "{'type':'reasoning.text','text':'t','signature':'s','format':'anthropic'},{'type':'x'}"),
     "messages[0].reasoning_details[1]: type is x, which is not supported (expected reasoning.text "
     "or reasoning.encrypted)"},
    {DETAILS("{'type':'reasoning.text','text':7,'signature':'s','format':'anthropic'}"),
     "messages[0].reasoning_details[0].text: expected a string"},
    {DETAILS("{'type':'reasoning.text','text':'t','signature':{},'format':'anthropic'}"),
     "messages[0].reasoning_details[0].signature: expected a string"},
    {DETAILS("{'type':'reasoning.encrypted'}"),
     "messages[0].reasoning_details[0].data: expected a string"},
    {DETAILS("{'type':'reasoning.encrypted','data':'d','id':7}"),
     "messages[0].reasoning_details[0].id: expected a string"},
    {DETAILS("{'type':'reasoning.encrypted','data':'d','format':7}"),
     "messages[0].reasoning_details[0].format: expected a string"},
};

static void test_refused_calls(void **state)
{
    (void)state;
    EACH(refused_calls_rows, assert_refuses)
}

#define CHOICE_WORDS "expected auto, none, required or an object that names a function"
#define EFFORTS      "expected none, minimal, low, medium, high or xhigh"

static const struct row refused_params_rows[] = {
    {P("'tools':{}"), "tools: expected a list"},
    {P("'tools':[7]"), "tools[0]: expected an object"},
    {P("'tools':[{}]"), "tools[0].type: expected a string"},
    {P("'tools':[{'type':'function','function':{'name':'f'}},{'type':'custom'}]"),
     "tools[1]: type is custom, which is not supported (expected function)"},
    {P("'tools':[{'type':'function'}]"), "tools[0].function: expected an object"},
    {P("'tools':[{'type':'function','function':{'name':7}}]"),
     "tools[0].function.name: expected a string"},
    {P("'tools':[{'type':'function','function':{'name':'f','description':7}}]"),
     "tools[0].function.description: expected a string"},
    {P("'tools':[{'type':'function','function':{'name':'f','parameters':'{}'}}]"),
     "tools[0].function.parameters: expected an object"},
    {P("'tools':[{'type':'function','function':{'name':'f','strict':1}}]"),
     "tools[0].function.strict: expected a boolean"},
    {P("'tool_choice':7"), "tool_choice: " CHOICE_WORDS},
    {P("'tool_choice':'any'"), "tool_choice: " CHOICE_WORDS},
    {P("'tool_choice':{'type':'allowed_tools'}"), "tool_choice.type: expected function"},
    {P("'tool_choice':{'type':'function'}"), "tool_choice.function: expected an object"},
    {P("'tool_choice':{'type':'function','function':{}}"),
     "tool_choice.function.name: expected a string"},
    {P("'tools':[{'type':'function','function':{'name':'f'}}],'tool_choice':{'type':'function','"
       "function':{'name':'ff'}}"),
     "tool_choice.function.name: no tool is named ff"},
    {P("'stop':7"), "stop: expected a string or a list of strings"},
    {P("'stop':['a',null]"), "stop[1]: expected a string"},
    {P("'response_format':'json'"), "response_format: expected an object"},
    {P("'response_format':{}"), "response_format.type: expected a string"},
    {P("'response_format':{'type':'xml'}"),
     "response_format.type: expected text, json_object or json_schema, not xml"},
    {P("'response_format':{'type':'json_schema'}"),
     "response_format.json_schema: expected an object"},
    {P("'response_format':{'type':'json_schema','json_schema':{}}"),
     "response_format.json_schema.schema: expected an object"},
    {P("'response_format':{'type':'json_schema','json_schema':{'schema':7}}"),
     "response_format.json_schema.schema: expected an object"},
    {P("'response_format':{'type':'json_schema','json_schema':{'name':7,'schema':{}}}"),
     "response_format.json_schema.name: expected a string"},
    {P("'response_format':{'type':'json_schema','json_schema':{'strict':7,'schema':{}}}"),
     "response_format.json_schema.strict: expected a boolean"},
    {P("'max_tokens':0"), "max_tokens: expected a whole number above 0"},
    {P("'max_tokens':-1"), "max_tokens: expected a whole number above 0"},
    {P("'max_tokens':1.5"), "max_tokens: expected a whole number above 0"},
    {P("'max_tokens':'5'"), "max_tokens: expected a whole number above 0"},
    {P("'max_completion_tokens':18446744073709551616"),
     "max_completion_tokens: expected a whole number above 0"},
    {P("'reasoning_effort':7"), "reasoning_effort: " EFFORTS},
    {P("'reasoning_effort':'ultra'"), "reasoning_effort: " EFFORTS ", not ultra"},
    {P("'parallel_tool_calls':'no'"), "parallel_tool_calls: expected a boolean"},
};

static void test_refused_params(void **state)
{
    (void)state;
    EACH(refused_params_rows, assert_refuses)
}

/* What the caller wrote is told in part only, and never cut within a character. */
static void test_long_words(void **state)
{
    char request[1024];
    char expected[512];
    char word[301];

    (void)state;
    for (size_t i = 0; i < 300; i += 3) {
        memcpy(word + i, "\xe2\x82\xac", 3);
    }
    word[300] = '\0';
    (void)snprintf(request, sizeof(request), M("{'role':'%s'}"), word);
    (void)snprintf(
        expected, sizeof(expected),
        "messages[0].role: expected system, developer, user, assistant or tool, not %.99s", word);
    assert_refuses(&(struct row){request, expected});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_messages),
        cmocka_unit_test(test_refused_calls),
        cmocka_unit_test(test_refused_params),
        cmocka_unit_test(test_long_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
