#include "tools/check/read/findings.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

const char *sb_level_name(sb_level level)
{
    static const char *const names[] = {"INFO", "WARN", "ERROR", "FATAL"};
    return names[level];
}

static sb_finding *next_row(sb_findings *to)
{
    sb_finding *grown = sb_grow(to->rows, to->count, &to->room, sizeof *grown);
    if (!grown)
        return NULL;
    to->rows = grown;
    return &to->rows[to->count];
}

void sb_find_list(sb_findings *to, unsigned check, sb_level level, const char *tensor,
                  const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    sb_clean_text(text); /* for names that are not UTF-8, and messages cut within a character */
    sb_finding *row = next_row(to);
    char *name = sb_strdup(tensor);
    char *message = sb_strdup(text);
    if (!row || !name || !message) {
        free(name);
        free(message);
        to->lost = 1;
        return;
    }
    *row = (sb_finding){.check = check, .level = level, .tensor = name, .message = message};
    to->count++;
}

void sb_find(sb_findings *to, unsigned check, sb_level level, const char *tensor,
             const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sb_find_list(to, check, level, tensor, format, args);
    va_end(args);
}

void sb_find_place(sb_findings *to, unsigned check, sb_level level, const char *tensor)
{
    sb_finding *grown = sb_grow(to->places, to->place_count, &to->place_room, sizeof *grown);
    char *name = grown ? sb_strdup(tensor) : NULL;
    to->places = grown ? grown : to->places;
    if (!name) {
        to->lost = 1;
        return;
    }
    grown[to->place_count++] = (sb_finding){.check = check, .level = level, .tensor = name};
}

void sb_findings_move(sb_findings *to, sb_findings *from)
{
    for (size_t i = 0; i < from->count; i++) {
        sb_finding *row = next_row(to);
        if (row) {
            *row = from->rows[i];
            to->count++;
            continue;
        }
        free(from->rows[i].tensor);
        free(from->rows[i].message);
        to->lost = 1;
    }
    to->lost |= from->lost;
    free(from->rows);
    *from = (sb_findings){0};
}

void sb_findings_free(sb_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->rows[i].tensor);
        free(findings->rows[i].message);
    }
    for (size_t i = 0; i < findings->place_count; i++)
        free(findings->places[i].tensor);
    free(findings->places);
    free(findings->rows);
    *findings = (sb_findings){0};
}
