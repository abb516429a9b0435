/* suite_main.c - main of the suites; a test file with a main of its own is a program of its own.
 */
#include "tests/lib/suite.h"

int main(int argc, char **argv)
{
    return suite_main(argc, argv);
}
