/* json_at.c - for the scripts of this folder: json_at PATH < DOCUMENT prints one value, and json_at
 * PATH VALUE < DOCUMENT prints the document with VALUE at PATH.
 *
 * PATH is empty (the document), or keys and indices: state_digest.target, sequences.0.tokens.
 * Strings are printed as they are, `length` at the end of a path gives a count. A `*` is every
 * element of an array, one line each. Exit 1: there is no such path; exit 2: the text is not one
 * strict JSON document. */
#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *step(json_t *at, const char *key, size_t n)
{
    char name[64];
    if (n >= sizeof name)
        return NULL;
    memcpy(name, key, n);
    name[n] = '\0';
    if (json_is_array(at))
        return json_array_get(at, (size_t)strtoul(name, NULL, 10));
    return json_object_get(at, name);
}

/* The value at `path` becomes `text`; 0 if there is nothing to be replaced. */
static int replace(json_t *document, const char *path, const char *text)
{
    const char *last = strrchr(path, '.');
    json_t *at = document, *value = json_loads(text, JSON_DECODE_ANY, NULL);
    while (last && path < last && at) {
        size_t n = strcspn(path, ".");
        at = step(at, path, n);
        path += n + 1;
    }
    if (!value || !step(at, path, strlen(path)))
        return 0;
    return json_is_array(at) ? json_array_set_new(at, (size_t)strtoul(path, NULL, 10), value) == 0
                             : json_object_set_new(at, path, value) == 0;
}

/* Prints what is at `path` below `at`; 0 if there is no such path. */
static int print(json_t *at, const char *path)
{
    while (*path && at) {
        size_t n = strcspn(path, ".");
        const char *rest = path + n + (path[n] == '.');
        if (strcmp(path, "length") == 0)
            return printf("%zu\n", json_is_array(at) ? json_array_size(at) : json_object_size(at));
        if (n == 1 && *path == '*' && json_is_array(at)) {
            int all = 1;
            for (size_t i = 0; i < json_array_size(at); i++)
                all &= print(json_array_get(at, i), rest) != 0;
            return all;
        }
        at = step(at, path, n);
        path = rest;
    }
    if (json_is_string(at))
        printf("%s\n", json_string_value(at));
    else if (at && json_dumpf(at, stdout, JSON_COMPACT | JSON_ENCODE_ANY) == 0)
        printf("\n");
    return at != NULL;
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *document = json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
    if (argc < 2 || argc > 3 || !document) {
        fprintf(stderr, "json_at: %s\n", document ? "usage: json_at PATH [VALUE]" : error.text);
        json_decref(document);
        return 2;
    }
    int found = argc == 3 ? replace(document, argv[1], argv[2]) : print(document, argv[1]);
    if (argc == 3 && found)
        json_dumpf(document, stdout, JSON_INDENT(1));
    json_decref(document);
    return !found;
}
