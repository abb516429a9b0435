/* cmocka.h - cmocka with the headers that it wants before it; in C++ it does not say that it is C.
 */
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
