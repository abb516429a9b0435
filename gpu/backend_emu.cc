/* backend_emu.cc - the kernels on the emulator as a backend. */
#include "gpu/backend.h"

const sb_backend *sb_backend_emu(void)
{
    static sb_backend backend;
    backend = backend_of("emu");
    return &backend;
}

void sb_backend_emu_seed(uint64_t to)
{
    if (opened())
        sb_emu_seed(sb_gpu_emulator(body), to);
}

void sb_backend_emu_history(int kept)
{
    if (opened())
        sb_gpu_history(body, kept != 0);
}

sb_gpu *sb_emu_body(const sb_backend *backend)
{
    return backend == sb_backend_emu() ? opened() : nullptr;
}

void sb_emu_forget(const sb_backend *backend)
{
    if (body && backend == sb_backend_emu())
        sb_gpu_forget_weights(body);
}

sb_status sb_emu_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                         sb_error *err)
{
    return backend == sb_backend_emu() ? stage(mode, bytes, err) : SB_ERR_UNSUPPORTED;
}
