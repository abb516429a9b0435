// kernel.cu - a CUDA kernel is judged, and then called again and again in other surroundings.
//
//   nvcc kernel.cu $(pkg-config --cflags --libs samebit) -o kernel && ./kernel
//
// Without a device, or compiled as C++ (c++ -x c++ kernel.cu ...), the same body runs on the host, thread
// after thread; then nothing is said of the device.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <samebit.h>
#include <vector>

#ifdef __CUDACC__
#define BODY __host__ __device__
#else
#define BODY
#endif

static BODY float bf16(const unsigned short *x, size_t i)
{
    union {
        unsigned bits;
        float value;
    } u;
    u.bits = (unsigned)x[i] << 16;
    return u.value;
}

enum { LANES = 4 };

// y = x W^T: one thread an output, in LANES partial sums. `mistaken`: the last column is lost.
static BODY void dot(const unsigned short *x, const unsigned short *w, float *y, size_t rows, size_t n,
                     size_t k, bool mistaken, size_t thread)
{
    if (thread >= rows * n)
        return;
    const size_t row = thread / n, col = thread % n;
    float sum[LANES] = {0, 0, 0, 0};
    for (size_t i = 0; i < k - (mistaken ? 1 : 0); i++)
        sum[i % LANES] += bf16(x, row * k + i) * bf16(w, col * k + i);
    y[thread] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

#ifdef __CUDACC__
static __global__ void dot_kernel(const unsigned short *x, const unsigned short *w, float *y, size_t rows,
                                  size_t n, size_t k, bool mistaken)
{
    dot(x, w, y, rows, n, k, mistaken, blockIdx.x * (size_t)blockDim.x + threadIdx.x);
}

static int has_device()
{
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

static int launch(const samebit_array *x, const samebit_array *w, float *y, size_t rows, size_t n, size_t k,
                  bool mistaken)
{
    void *dx = NULL, *dw = NULL, *dy = NULL;
    int failed = cudaMalloc(&dx, x->bytes) || cudaMalloc(&dw, w->bytes) ||
                 cudaMalloc(&dy, rows * n * sizeof *y) ||
                 cudaMemcpy(dx, x->data, x->bytes, cudaMemcpyHostToDevice) ||
                 cudaMemcpy(dw, w->data, w->bytes, cudaMemcpyHostToDevice);
    if (!failed) {
        dot_kernel<<<(unsigned)((rows * n + 127) / 128), 128>>>((unsigned short *)dx, (unsigned short *)dw,
                                                                (float *)dy, rows, n, k, mistaken);
        failed = cudaMemcpy(y, dy, rows * n * sizeof *y, cudaMemcpyDeviceToHost) != cudaSuccess;
    }
    cudaFree(dx);
    cudaFree(dw);
    cudaFree(dy);
    return failed;
}
#else
static int has_device()
{
    return 0;
}

static int launch(const samebit_array *, const samebit_array *, float *, size_t, size_t, size_t, bool)
{
    return 1;
}
#endif

static samebit_error err;

static void need(samebit_status status)
{
    if (status == SAMEBIT_OK)
        return;
    fprintf(stderr, "kernel: %s\n", err.text);
    exit((int)status);
}

static samebit_array input(const samebit_case *c, const char *name)
{
    samebit_array a;
    for (size_t i = 0; i < samebit_case_inputs(c); i++) {
        need(samebit_case_input(c, i, &a, &err));
        if (strcmp(a.name, name) == 0)
            return a;
    }
    fprintf(stderr, "kernel: there is no input %s\n", name);
    exit(SAMEBIT_USAGE);
}

// A samebit_kernel; ctx says whether it is the mistaken one.
static int run(void *ctx, const samebit_case *c, const samebit_room *out)
{
    const bool mistaken = *(const bool *)ctx;
    const samebit_array x = input(c, "x"), w = input(c, "weight");
    const size_t rows = x.shape[0], k = x.shape[1], n = w.shape[0];
    float *y = (float *)out[0].data;
    if (has_device())
        return launch(&x, &w, y, rows, n, k, mistaken);
    std::vector<unsigned short> xs(rows * k), ws(n * k);
    memcpy(xs.data(), x.data, x.bytes);
    memcpy(ws.data(), w.data, w.bytes);
    for (size_t thread = 0; thread < rows * n + 5; thread++)
        dot(xs.data(), ws.data(), y, rows, n, k, mistaken, thread);
    return 0;
}

static samebit_status judge(const samebit_case *c, bool mistaken, samebit_result *result)
{
    samebit_array got;
    need(samebit_case_output(c, 0, &got, &err)); // its name, type and shape
    std::vector<float> y(got.bytes / sizeof(float));
    const samebit_room room = {"F32", y.data(), got.bytes};
    if (run(&mistaken, c, &room) != 0) {
        fprintf(stderr, "kernel: the device refused\n");
        exit(SAMEBIT_REFUSED);
    }
    got.data = y.data();
    memset(result, 0, sizeof *result);
    result->size = sizeof *result;
    return samebit_case_judge(c, "fp32", &got, 1, result, &err);
}

int main()
{
    samebit_case *c = NULL;
    samebit_result right, wrong;
    static samebit_meta meta;
    bool mistaken = false;
    need(samebit_case_make("linear", "bf16", "rows=5,n=40,k=96", "index", "BF16", 42, &c, &err));
    printf("on the %s\n", has_device() ? "device" : "host");

    const samebit_status passed = judge(c, false, &right);
    printf("%s: %s\n", right.verdict, right.words);
    const samebit_status failed = judge(c, true, &wrong);
    printf("without the last column: %s: %s\n", wrong.verdict, wrong.words);

    meta.size = sizeof meta;
    const samebit_status same = samebit_case_metamorphic(c, run, &mistaken, NULL, 3, &meta, &err);
    for (unsigned i = 0; i < meta.rows; i++)
        printf("%s: %s\n", meta.row[i].name, meta.row[i].verdict);
    samebit_case_free(c);
    return passed == SAMEBIT_OK && failed == SAMEBIT_FAIL && same == SAMEBIT_OK ? 0 : 1;
}
