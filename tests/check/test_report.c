/* test_report.c - waivers, and names and messages that may contain any bytes. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "tools/report/check/report.h"

static void clean_is(const char *text, const char *expected)
{
    char *clean = sb_report_clean(text);
    assert_non_null(clean);
    assert_string_equal(clean, expected);
    free(clean);
}

/* Every byte that may not stand in XML or JSON becomes a question mark; the rest stays. */
TEST(test_clean)
{
    clean_is("", "");
    clean_is("a<&>\"'b", "a<&>\"'b");
    clean_is("\x01\x1f\x7f\n", "????");
    clean_is("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    clean_is("\xc3", "?");                     /* cut */
    clean_is("\xe2\x82", "??");                /* cut */
    clean_is("\x80\xbf", "??");                /* no beginning */
    clean_is("\xc0\xaf", "??");                /* overlong form */
    clean_is("\xe0\x80\x80", "???");           /* overlong form */
    clean_is("\xed\xa0\x80", "???");           /* a surrogate */
    clean_is("\xef\xbf\xbe", "???");           /* U+FFFE */
    clean_is("\xf4\x90\x80\x80", "????");      /* beyond Unicode */
    clean_is("\xf8\x88\x80\x80\x80", "?????"); /* five bytes */
    clean_is("\xc2\x85", "??");                /* a control character of C1 */
}

static sb_status parse(const char *text, sb_waivers *out, sb_error *err)
{
    return sb_waivers_parse(text, strlen(text), "file", out, err);
}

TEST(test_waivers)
{
    sb_waivers w;
    sb_error err = {""};
    assert_int_equal(parse("# nothing\n\n \t\r\nfp4-nearest  a.*#b \t# because # of\r\n15 * # x\n"
                           "loaded m?p.* # no head",
                           &w, &err),
                     SB_OK);
    assert_int_equal(w.count, 3);
    assert_int_equal(w.rows[0].check, 23);
    assert_string_equal(w.rows[0].glob, "a.*#b");
    assert_string_equal(w.rows[0].why, "because # of");
    assert_int_equal(w.rows[0].line, 4);
    assert_int_equal(w.rows[2].check, 0);
    assert_int_equal(sb_waivers_cover(&w, 23, SB_LEVEL_error, "a.x#b"), 1);
    assert_int_equal(sb_waivers_cover(&w, 23, SB_LEVEL_error, "b.x#b"), 0);
    assert_int_equal(sb_waivers_cover(&w, 15, SB_LEVEL_fatal, "a"), 0);
    assert_int_equal(sb_waivers_cover(&w, 15, SB_LEVEL_warn, ""), 2);
    assert_int_equal(sb_waivers_cover(&w, 0, SB_LEVEL_error, "mtp.fc"), 3);
    assert_int_equal(w.rows[1].covered, 1);
    assert_int_equal(w.rows[1].fatal, 1);
    sb_waivers_free(&w);
}

/* A message that is cut within a character, or that shows a name that is not UTF-8, is still valid
 * text for every report. */
TEST(test_messages)
{
    sb_findings f = {0};
    char text[1500];
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    sb_find(&f, 1, SB_LEVEL_error, "", "%s", text);
    sb_find(&f, 1, SB_LEVEL_error, "", "a\n\xff%s", "z");
    assert_int_equal(strlen(f.rows[0].message), 1023);
    assert_int_equal(f.rows[0].message[1022], '?');
    assert_string_equal(f.rows[1].message, "a??z");
    sb_findings_free(&f);
}

TEST(test_bad_waivers)
{
    static const char *const bad[] = {"15 * x",    "15 *",      "15 * #",  "15 * #  ",
                                      "15 # why",  "x * # why", "0 * # y", "15 a b # y",
                                      "* * # why", "015 * # y"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        sb_waivers w;
        sb_error err = {""};
        snprintf(text, sizeof text, "15 * # fine\n%s\n", bad[i]);
        if (parse(text, &w, &err) != SB_ERR_INPUT || strncmp(err.text, "file:2: ", 8) != 0)
            fail_msg("'%s': %s", bad[i], err.text);
        sb_waivers_free(&w);
    }
}
