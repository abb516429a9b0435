/* occupancy_gates.cu - the number of blocks per multiprocessor by the calculator of the CUDA
 * toolkit. device_gates.sh compares its own numbers with it. Reads lines `SM REGISTERS THREADS
 * BYTES` and prints the blocks for each; a program for the host. */
#include <stdio.h>

#include <cuda_occupancy.h>

int main()
{
    int sm, registers, threads;
    size_t bytes;
    while (scanf("%d %d %d %zu", &sm, &registers, &threads, &bytes) == 4) {
        cudaOccDeviceProp on;
        cudaOccFuncAttributes kernel;
        cudaOccDeviceState state;
        cudaOccResult result;
        on.computeMajor = sm / 10;
        on.computeMinor = sm % 10;
        on.maxThreadsPerBlock = 1024;
        on.maxThreadsPerMultiprocessor = sm == 90 ? 2048 : 1536;
        on.regsPerBlock = on.regsPerMultiprocessor = 65536;
        on.warpSize = 32;
        on.sharedMemPerBlock = 49152;
        on.sharedMemPerMultiprocessor = sm == 90 ? 233472 : 102400;
        on.sharedMemPerBlockOptin = on.sharedMemPerMultiprocessor - 1024;
        on.reservedSharedMemPerBlock = 1024;
        on.numSms = 1;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = 0;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = bytes;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &on, &kernel, &state, threads, bytes))
            return 1;
        printf("%d\n", result.activeBlocksPerMultiprocessor);
    }
    return 0;
}
