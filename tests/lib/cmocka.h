/* cmocka.h - cmocka with the headers that it needs before it. In C++, it needs extern "C" around
 * it. */
#ifndef SB_TESTS_LIB_CMOCKA_H
#define SB_TESTS_LIB_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#include <cmocka.h>
}
#else
#include <cmocka.h>
#endif

#endif
