#include "tools/judge/trace/trace_file.h"

#include <inttypes.h>
#include <stdio.h>

sb_trace_name sb_trace_file_name(uint64_t step)
{
    sb_trace_name name;
    snprintf(name.text, sizeof name.text, "step-%06" PRIu64 ".safetensors", step);
    return name;
}
