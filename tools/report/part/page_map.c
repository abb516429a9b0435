/* page_map.c - a map of rows and columns: fields, the names around them, and the colours. */
#include "tools/report/part/page.h"

/* With more rows than this, rows are low and only some of them have a name. */
enum { MANY_ROWS = 40, MANY_COLUMNS = 120 };

void sb_page_field(FILE *out, size_t row, size_t column, const char *class)
{
    fprintf(out, "<rect x=\"%zu\" y=\"%zu\" width=\"1\" height=\"1\" class=\"%s\"><title>", column,
            row, class);
}

void sb_page_field_end(FILE *out)
{
    fputs("</title></rect>\n", out);
}

static void print_names(FILE *out, const sb_page_map *m)
{
    size_t each = m->rows > MANY_ROWS ? 4 : 1;
    fprintf(out, "<div class=\"names%s\">\n", each > 1 ? " dense" : "");
    for (size_t row = 0; row < m->rows; row++) {
        size_t below = m->rows - 1 - row;
        fputs("<div>", out);
        if (!below || (row % each == 0 && below > each / 2))
            m->row(out, m->ctx, row);
        fputs("</div>\n", out);
    }
    fputs("</div>\n", out);
}

static void print_axis(FILE *out, const sb_page_map *m)
{
    size_t marks = m->columns < 3 ? 1 : m->columns < 12 ? 2 : 5;
    fputs("<div class=\"axis\">", out);
    for (size_t i = 0; i < marks; i++) {
        size_t column = marks == 1 ? 0 : i * (m->columns - 1) / (marks - 1);
        fprintf(out, "<span%s style=\"left:%.2f%%\">",
                i == 0           ? " class=\"start\""
                : i + 1 == marks ? " class=\"end\""
                                 : "",
                i == 0           ? 0.0
                : i + 1 == marks ? 100.0
                                 : 100.0 * ((double)column + 0.5) / (double)m->columns);
        m->column(out, m->ctx, column);
        fputs("</span>", out);
    }
    fputs("</div>\n", out);
}

static void print_keys(FILE *out, const sb_page_key *keys)
{
    fputs("<p class=\"legend\">", out);
    for (; keys->class; keys++)
        fprintf(out,
                "<span><svg viewBox=\"0 0 14 12\" aria-hidden=\"true\"><rect width=\"14\" "
                "height=\"12\" class=\"%s\"/></svg>%s</span>",
                keys->class, keys->words);
    fputs("</p>\n", out);
}

void sb_page_map_print(FILE *out, const sb_page_map *m)
{
    unsigned high = m->rows > MANY_ROWS ? 9 : 16;
    fprintf(out, "<div class=\"grid\" style=\"--rh:%upx\">\n", high);
    print_names(out, m);
    fprintf(out,
            "<div style=\"width:min(100%%,%zupx)\">\n<svg class=\"map%s\" viewBox=\"0 0 %zu %zu\" "
            "preserveAspectRatio=\"none\" style=\"height:%zupx\" role=\"img\" aria-label=\"%s\">\n",
            m->columns * m->wide, m->columns > MANY_COLUMNS || m->rows > MANY_ROWS ? " dense" : "",
            m->columns, m->rows, m->rows * high, m->label);
    for (size_t row = 0; row < m->rows; row++)
        for (size_t column = 0; column < m->columns; column++)
            m->field(out, m->ctx, row, column);
    if (m->marks)
        m->marks(out, m->ctx);
    fputs("</svg>\n", out);
    print_axis(out, m);
    fputs("</div>\n</div>\n", out);
    print_keys(out, m->keys);
}
