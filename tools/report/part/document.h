/* document.h - the JSON document of a command.
 *
 * A value may be text, a number or JSON:
 *
 *     json_t *row = json_object();
 *     SB_PUT(row, "name", tensor->name);
 *     SB_PUT(row, "bytes", tensor->bytes);
 *     SB_PUT(row, "rate", SB_KNOWN(rate->of, rate->share));
 *     SB_ADD(rows, row);
 *
 * Nothing here reports that memory is out: a document that lacks a member for this reason is not
 * written (ref/container/json_out.h). JSON that is handed over must be made from valid UTF-8. Keys
 * keep the order in which they were put. */
#ifndef SB_REPORT_DOCUMENT_H
#define SB_REPORT_DOCUMENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

/* A new object with the keys of every document: spec, command. */
json_t *sb_document(const char *command);

/* Prints a document to stdout and releases it. */
sb_status sb_print_document(json_t *document, sb_error *err);

/* The end of a text on stdout. SB_ERR_IO if some of it could not be written. what: "report" */
sb_status sb_print_end(const char *what, sb_error *err);

/* null for an infinity and for NaN, which JSON lacks. */
json_t *sb_value_real(double value);

/* null for NULL. Text that is no UTF-8 is shown as SB_SHOW shows it. */
json_t *sb_value_text(const char *text);

/* The text as valid UTF-8; control characters and invalid bytes become '?'. NULL if memory runs
 * out. */
char *sb_report_clean(const char *text);

/* Text that sb_report_clean has cleaned; null for NULL. */
json_t *sb_report_string(const char *text);

/* A list of numbers. */
json_t *sb_ids_json(const uint32_t *ids, size_t count);
json_t *sb_counts_json(const uint64_t *counts, size_t count);

/* Prints `before` and the list after it: " 1,2,3"; an empty list prints nothing. */
void sb_ids_print(const char *before, const uint32_t *ids, size_t count);

static inline json_t *sb_value_unsigned(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static inline json_t *sb_value_signed(int64_t value)
{
    return json_integer((json_int_t)value);
}

static inline json_t *sb_value_given(json_t *value)
{
    return value;
}

/* clang-format off */
#define SB_JSON(value)                                                                             \
    _Generic((value), char *: sb_value_text, const char *: sb_value_text, json_t *: sb_value_given,   \
             double: sb_value_real, float: sb_value_real, int: sb_value_signed, long: sb_value_signed,       \
             long long: sb_value_signed, default: sb_value_unsigned)(value)
/* clang-format on */

/* The value, or null if it is not known. */
#define SB_KNOWN(known, value) ((known) ? SB_JSON(value) : json_null())

/* A member of an object, an item of a list. Both take over a value that is JSON. */
#define SB_PUT(object, key, value) (void)json_object_set_new(object, key, SB_JSON(value))
#define SB_ADD(list, value) (void)json_array_append_new(list, SB_JSON(value))

#endif
