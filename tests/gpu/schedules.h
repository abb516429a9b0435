/* schedules.h - the number of thread orders under which the test of a kernel launches it. */
#ifndef SB_TESTS_GPU_SCHEDULES_H
#define SB_TESTS_GPU_SCHEDULES_H

enum { SCHEDULES = 5 };

#endif
