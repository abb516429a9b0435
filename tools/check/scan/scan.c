#include "tools/check/scan/scan.h"

void sb_seen_zero(sb_seen *seen, int zero)
{
    if (zero) {
        seen->zero_rows++;
        seen->run++;
        if (seen->run > seen->zero_run) {
            seen->zero_run = seen->run;
            seen->zero_run_first = seen->row + 1 - seen->run;
        }
    } else {
        seen->run = 0;
    }
    seen->row++;
}

void sb_seen_row(sb_seen *seen, const double *values, uint32_t cols)
{
    sb_moments *m = &seen->moments;
    uint64_t zeros = 0, count = 0;
    double sum = 0, sum2 = 0, sum4 = 0, largest = m->largest;
    for (uint32_t k = 0; k < cols; k++) {
        double x = values[k], square = x * x;
        if (!(square <= 1e300)) /* NaN or infinity */
            continue;
        count++;
        zeros += x == 0;
        sum += x;
        sum2 += square;
        sum4 += square * square;
        if (square > largest * largest)
            largest = x < 0 ? -x : x;
    }
    m->count += count;
    m->zeros += zeros;
    m->sum += sum;
    m->sum2 += sum2;
    m->sum4 += sum4;
    m->largest = largest;
    sb_seen_zero(seen, zeros == cols);
}

uint64_t sb_part_offset(const sb_check *check, const sb_unit *unit, sb_model_part part,
                        uint64_t byte)
{
    const sb_tensor *t = unit->tensor ? unit->tensor : unit->found.part[part];
    return t ? sb_checkpoint_offset(check->self.checkpoint, t) + byte : 0;
}
