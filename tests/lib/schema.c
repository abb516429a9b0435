#include "tests/lib/schema.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/suite.h"

typedef struct look {
    const json_t *root;
    char *why;
    size_t room;
} look;

static int fits(const look *l, const json_t *schema, const json_t *value, const char *at);

static int no(const look *l, const char *at, const char *word)
{
    snprintf(l->why, l->room, "%s: %s", *at ? at : "the document", word);
    return 0;
}

/* "#/$defs/NAME" */
static const json_t *named(const look *l, const char *text)
{
    assert_true(strncmp(text, "#/$defs/", 8) == 0);
    const json_t *found = json_object_get(json_object_get(l->root, "$defs"), text + 8);
    assert_non_null(found);
    return found;
}

static int is_type(const char *type, const json_t *value)
{
    const struct {
        const char *name;
        int is;
    } types[] = {{"object", json_is_object(value)},   {"array", json_is_array(value)},
                 {"string", json_is_string(value)},   {"integer", json_is_integer(value)},
                 {"boolean", json_is_boolean(value)}, {"number", json_is_number(value)},
                 {"null", json_is_null(value)}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].name) == 0)
            return types[i].is;
    fail_msg("a schema has the type %s", type);
    return 0;
}

/* One type, or a list of types. */
static int is_of_types(const json_t *rule, const json_t *value)
{
    int found = json_is_string(rule) && is_type(json_string_value(rule), value);
    for (size_t i = 0; i < json_array_size(rule); i++)
        found |= is_type(json_string_value(json_array_get(rule, i)), value);
    return found;
}

static int is_one_of(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return 1;
    return 0;
}

static int has_all(const json_t *keys, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (!json_object_get(value, json_string_value(json_array_get(keys, i))))
            return 0;
    return 1;
}

static int has_pattern(const char *pattern, const char *text)
{
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    int found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

static int fits_properties(const look *l, const json_t *schema, const json_t *value, const char *at)
{
    const json_t *properties = json_object_get(schema, "properties");
    const char *key;
    json_t *inner;
    json_object_foreach((json_t *)(uintptr_t)value, key, inner)
    {
        char place[256];
        const json_t *rule = json_object_get(properties, key);
        snprintf(place, sizeof place, "%.200s.%s", at, key);
        if (!rule && json_is_false(json_object_get(schema, "additionalProperties")))
            return no(l, place, "additionalProperties");
        if (rule && !fits(l, rule, inner, place))
            return 0;
    }
    return 1;
}

static int fits_items(const look *l, const json_t *rule, const json_t *value, const char *at)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        char place[256];
        snprintf(place, sizeof place, "%.200s[%zu]", at, i);
        if (!fits(l, rule, json_array_get(value, i), place))
            return 0;
    }
    return 1;
}

/* A limit applies only to values of its type. */
static int fits_limit(const char *word, const json_t *rule, const json_t *value)
{
    double limit = json_number_value(rule), size;
    const char *least[] = {"minimum", "minItems", "minLength"};
    if (strstr(word, "imum"))
        size = json_is_number(value) ? json_number_value(value) : limit;
    else if (strstr(word, "Items"))
        size = json_is_array(value) ? (double)json_array_size(value) : limit;
    else
        size = json_is_string(value) ? (double)json_string_length(value) : limit;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(word, least[i]) == 0)
            return size >= limit;
    return size <= limit;
}

static int is_limit(const char *word)
{
    return strncmp(word, "min", 3) == 0 || strncmp(word, "max", 3) == 0;
}

/* Words that other words read, and words without a rule. */
static int is_quiet(const char *word)
{
    static const char *const quiet[] = {"$schema", "title", "description",         "$defs",
                                        "then",    "if",    "additionalProperties"};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        if (strcmp(word, quiet[i]) == 0)
            return 1;
    return 0;
}

/* All schemas of a list. */
static int fits_all(const look *l, const json_t *list, const json_t *value, const char *at)
{
    size_t good = 0;
    while (good < json_array_size(list) && fits(l, json_array_get(list, good), value, at))
        good++;
    return good == json_array_size(list);
}

static int fits_word(const look *l, const json_t *schema, const char *word, const json_t *rule,
                     const json_t *value, const char *at)
{
    if (strcmp(word, "$ref") == 0)
        return fits(l, named(l, json_string_value(rule)), value, at);
    if (strcmp(word, "properties") == 0)
        return fits_properties(l, schema, value, at);
    if (strcmp(word, "items") == 0)
        return fits_items(l, rule, value, at);
    if (strcmp(word, "allOf") == 0)
        return fits_all(l, rule, value, at);
    int good = 0;
    if (strcmp(word, "type") == 0)
        good = is_of_types(rule, value);
    else if (strcmp(word, "const") == 0)
        good = json_equal(rule, value);
    else if (strcmp(word, "enum") == 0)
        good = is_one_of(rule, value);
    else if (strcmp(word, "required") == 0)
        good = !json_is_object(value) || has_all(rule, value);
    else if (strcmp(word, "pattern") == 0)
        good = !json_is_string(value) ||
               has_pattern(json_string_value(rule), json_string_value(value));
    else if (is_limit(word))
        good = fits_limit(word, rule, value);
    else if (is_quiet(word))
        good = 1;
    else
        fail_msg("a schema has the word %s", word);
    return good ? 1 : no(l, at, word);
}

static int fits(const look *l, const json_t *schema, const json_t *value, const char *at)
{
    const char *word;
    json_t *rule;
    if (json_is_boolean(schema))
        return json_is_true(schema) ? 1 : no(l, at, "no value is allowed");
    assert_true(json_is_object(schema));
    json_object_foreach((json_t *)(uintptr_t)schema, word, rule)
    {
        if (!fits_word(l, schema, word, rule, value, at))
            return 0;
    }
    const json_t *condition = json_object_get(schema, "if");
    return !condition || !fits(l, condition, value, at) ||
           fits(l, json_object_get(schema, "then"), value, at);
}

int schema_fits(const json_t *root, const json_t *value, char *why, size_t room)
{
    const look l = {root, why, room};
    return fits(&l, root, value, "");
}
