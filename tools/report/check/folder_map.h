/* folder_map.h - where in the folder tensors and findings are: a row per file, a column per layer.
 *
 * O-6: "A finding about a layer counts for every tensor of the layer, and one that a list only
 * counts has its field, too. Two rows may follow: tensors that are in no file, and the folder as a
 * whole, for findings about no tensor." */
#ifndef SB_CHECK_FOLDER_MAP_H
#define SB_CHECK_FOLDER_MAP_H

#include "tools/report/check/report.h"

/* The columns beside those of the layers of the trunk. */
typedef enum sb_folder_part {
    SB_FOLDER_embed, /* before the layers */
    SB_FOLDER_layer,
    SB_FOLDER_head, /* after the layers: the last norm and the output matrix */
    SB_FOLDER_mtp,
    SB_FOLDER_vision,
    SB_FOLDER_other,
    SB_FOLDER_PARTS
} sb_folder_part;

typedef struct sb_folder_place {
    sb_folder_part part;
    uint32_t layer; /* of SB_FOLDER_layer */
} sb_folder_place;

/* The place of a tensor or of a layer, from its name. */
sb_folder_place sb_folder_place_of(const char *name);

/* "embedding", "layer 3", "MTP head"; for axes "embed", "3", "MTP" */
typedef struct sb_folder_text {
    char text[32];
} sb_folder_text;
sb_folder_text sb_folder_place_text(sb_folder_place place);
sb_folder_text sb_folder_place_short(sb_folder_place place);

/* In order of severity. */
typedef enum sb_folder_state {
    SB_FOLDER_none, /* no tensor is there */
    SB_FOLDER_sound,
    SB_FOLDER_waived,
    SB_FOLDER_warn,
    SB_FOLDER_bad /* ERROR, FATAL, or tensors of the index that are not there */
} sb_folder_state;

typedef struct sb_folder_cell {
    sb_folder_state state;
    size_t tensors, missing; /* missing: the index puts them there */
    size_t findings;         /* WARN and worse, not waived; with those that are only counted */
} sb_folder_cell;

/* A picture of the folder. Neighbouring files share a row and neighbouring columns a field if there
 * are too many. */
typedef struct sb_folder_map {
    const char **files; /* sorted */
    size_t file_count;
    sb_folder_place *places; /* what the columns stand for, in order */
    size_t place_count;
    size_t per_row, per_column;    /* files of a row, places of a column */
    size_t file_rows, columns;     /* rows of files */
    size_t rows;                   /* with those that follow the files */
    size_t extra[2];               /* which of the two these are */
    sb_folder_cell *cells;         /* (file_rows + 2, columns) */
    size_t first[SB_FOLDER_PARTS]; /* the place at which each part begins */
} sb_folder_map;

/* The limits of a picture. */
typedef struct sb_folder_limits {
    size_t rows, columns, fields;
} sb_folder_limits;

sb_status sb_folder_map_make(const sb_report *report, sb_folder_limits most, sb_folder_map *out,
                             sb_error *err);
void sb_folder_map_free(sb_folder_map *map);

const sb_folder_cell *sb_folder_cell_at(const sb_folder_map *map, size_t row, size_t column);

/* The first file of a row, or what the row stands for; *more: how many files share the row
 * besides. */
const char *sb_folder_row_name(const sb_folder_map *map, size_t row, size_t *more);

/* The first and the last place of a column. */
sb_folder_place sb_folder_first(const sb_folder_map *map, size_t column);
sb_folder_place sb_folder_last(const sb_folder_map *map, size_t column);

#endif
