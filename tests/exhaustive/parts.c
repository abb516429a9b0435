#include "tests/exhaustive/parts.h"

#include <stdio.h>
#include <string.h>

int part_logged(const char *path, const char *key)
{
    char line[256];
    int found = 0;
    FILE *in = path ? fopen(path, "r") : NULL;
    while (in && !found && fgets(line, sizeof line, in))
        found = strncmp(line, key, strlen(key)) == 0 && strstr(line, " PASS") != NULL;
    if (in)
        fclose(in);
    return found;
}

int part_log(const char *path, const char *line)
{
    FILE *out = path ? fopen(path, "a") : NULL;
    if (path && (!out || fputs(line, out) < 0 || fclose(out) != 0)) {
        perror(path);
        return 0;
    }
    return 1;
}
