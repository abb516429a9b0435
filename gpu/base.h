/* base.h - what C++ sources take of ref/base, whose headers are C. */
#ifndef SB_GPU_BASE_H
#define SB_GPU_BASE_H

extern "C" {
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/status.h"
}

#endif
