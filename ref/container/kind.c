#include "ref/container/kind.h"

#include <string.h>

/* The first match counts, so a longer beginning comes before a shorter one. */
static const struct {
    const char *first, *words;
} kinds[] = {
    {"GGUF", ": this is a GGUF file of llama.cpp; samebit reads the safetensors files that it was "
             "made from"},
    {"PK\003\004", ": this is a zip archive, such as torch.save writes; save the tensors as "
                   "safetensors"},
    {"\x80\x02", ": this is a Python pickle; save the tensors as safetensors"},
    {"\x80\x04", ": this is a Python pickle; save the tensors as safetensors"},
    {"version https://git-lfs", ": this is a pointer of Git LFS; the file itself is missing ('git "
                                "lfs pull' gets it)"},
    {"<!", ": this is a web page; the download failed"},
    {"<html", ": this is a web page; the download failed"},
    {"{", ": this is JSON; pass the folder that contains it"},
};

const char *sb_kind_of(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].first);
        if (size >= n && memcmp(bytes, kinds[i].first, n) == 0)
            return kinds[i].words;
    }
    return "";
}
