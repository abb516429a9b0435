/* site.h - the source line of a call, captured by a default argument. */
#ifndef SB_GPU_EMU_SITE_H
#define SB_GPU_EMU_SITE_H

struct sb_emu_site {
    const char *file;
    int line;

    static constexpr sb_emu_site here(const char *file = __builtin_FILE(),
                                      int line = __builtin_LINE())
    {
        return {file[0] == '.' && file[1] == '/' ? file + 2 : file, line};
    }
};

#endif
