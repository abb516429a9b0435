/* suite_main.c - main of the suites. A test file that has its own main is a separate program. */
#include "tests/lib/suite.h"

int main(int argc, char **argv)
{
    return suite_main(argc, argv);
}
