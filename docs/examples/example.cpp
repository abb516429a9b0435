// example.cpp - somebody's kernel is judged: y = x W^T of NVFP4 weights in plain binary32. It passes by
// the bound of binary32 arithmetic, and the same with a mistake fails, with the place where it shows.
//
//   c++ -std=c++11 example.cpp $(pkg-config --cflags --libs samebit) -o example && ./example
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <samebit.h>
#include <string>
#include <vector>

namespace {

samebit_error err;

void need(samebit_status status)
{
    if (status == SAMEBIT_OK)
        return;
    std::fprintf(stderr, "example: %s\n", err.text);
    std::exit(status);
}

using Case = std::unique_ptr<samebit_case, decltype(&samebit_case_free)>;

Case make(const char *op, const char *format, const char *shape)
{
    samebit_case *c = nullptr;
    need(samebit_case_make(op, format, shape, "normal", "BF16", 42, &c, &err));
    return Case(c, samebit_case_free);
}

samebit_array input(const samebit_case *c, const char *name)
{
    samebit_array a;
    for (std::size_t i = 0; i < samebit_case_inputs(c); i++) {
        need(samebit_case_input(c, i, &a, &err));
        if (std::strcmp(a.name, name) == 0)
            return a;
    }
    std::fprintf(stderr, "example: there is no input %s\n", name);
    std::exit(SAMEBIT_USAGE);
}

float bf16(const samebit_array &a, std::size_t i)
{
    std::uint16_t half;
    std::memcpy(&half, static_cast<const char *>(a.data) + 2 * i, 2);
    std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

float e4m3(unsigned code)
{
    int exponent = static_cast<int>(code >> 3 & 15);
    float mantissa = static_cast<float>(code & 7);
    float value = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
    return code & 128 ? -value : value;
}

// Packed: two codes a byte, the low one first; a scale for each 16 columns; and one that divides all.
std::vector<float> kernel(const samebit_case *c, bool mistaken)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const samebit_array x = input(c, "x"), packed = input(c, "weight_packed");
    const samebit_array scale = input(c, "weight_scale"), global = input(c, "weight_global_scale");
    const std::size_t rows = x.shape[0], K = x.shape[1], N = packed.shape[0];
    const unsigned char *codes = static_cast<const unsigned char *>(packed.data);
    const unsigned char *scales = static_cast<const unsigned char *>(scale.data);
    float divisor;
    std::memcpy(&divisor, global.data, 4);
    std::vector<float> out(rows * N);
    for (std::size_t r = 0; r < rows; r++)
        for (std::size_t n = 0; n < N; n++) {
            float sum = 0;
            for (std::size_t k = 0; k < K; k++) {
                unsigned code = codes[(n * K + k) / 2] >> (k & 1 ? 4 : 0) & 15;
                float w = e2m1[code & 7] * e4m3(scales[n * (K / 16) + k / 16]);
                // the mistake: the sign of one code is lost, as where a table has only positive values
                if (code & 8 && !(mistaken && code == 9))
                    w = -w;
                sum += bf16(x, r * K + k) * w;
            }
            out[r * N + n] = sum / divisor;
        }
    return out;
}

samebit_result judge(const samebit_case *c, const std::vector<float> &out)
{
    samebit_array got = samebit_array();
    samebit_array shape;
    need(samebit_case_output(c, 0, &shape, &err));
    got.name = "out";
    got.dtype = "F32";
    got.rank = shape.rank;
    std::memcpy(got.shape, shape.shape, sizeof got.shape);
    got.data = out.data();
    got.bytes = out.size() * sizeof(float);
    samebit_result result = samebit_result();
    result.size = sizeof result;
    samebit_status status = samebit_case_judge(c, "fp32", &got, 1, &result, &err);
    if (status != SAMEBIT_OK && status != SAMEBIT_FAIL)
        need(status);
    return result;
}

} // namespace

int main()
{
    Case c = make("linear", "nvfp4-ct", "rows=4,n=48,k=128");
    samebit_power power = samebit_power();
    power.size = sizeof power;

    samebit_result right = judge(c.get(), kernel(c.get(), false));
    need(samebit_case_power(c.get(), "fp32", "F32", &power, &right, &err));
    std::printf("%s: %s\n", right.verdict, right.words);
    std::printf("these inputs show %u of %u planted mistakes\n",
                static_cast<unsigned>(power.caught), static_cast<unsigned>(power.planted));

    samebit_result wrong = judge(c.get(), kernel(c.get(), true));
    std::printf("with a mistake: %s: %s\n", wrong.verdict, wrong.words);
    return right.status == SAMEBIT_OK && wrong.status == SAMEBIT_FAIL ? 0 : 1;
}
