/* cmocka.h - cmocka with the headers that it wants before it. */
#ifndef SB_TESTS_LIB_CMOCKA_H
#define SB_TESTS_LIB_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
