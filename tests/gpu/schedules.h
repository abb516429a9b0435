/* schedules.h - under how many orders of threads the test of a kernel starts it. */
#ifndef SB_TESTS_GPU_SCHEDULES_H
#define SB_TESTS_GPU_SCHEDULES_H

enum { SCHEDULES = 5 };

#endif
