/* mtp.h - the MTP head on its own: is the file the reason why speculation gains nothing?
 *
 * Computed after sb_check_run from its findings and units; nothing is read again. Documented in
 * docs/mtp-audit.md. */
#ifndef SB_CHECK_MTP_H
#define SB_CHECK_MTP_H

#include "tools/check/read/check.h"

typedef enum sb_mtp_verdict {
    SB_MTP_NONE_DECLARED, /* no head is declared and none is there: nothing to audit */
    SB_MTP_FILE_BAD,      /* the files are at fault: repair them */
    SB_MTP_FILE_OK,       /* fine as far as files can tell: suspect the engine's loader */
    SB_MTP_HEAD_WEAK      /* sound files, but the head drafts badly: set by head_run.h only */
} sb_mtp_verdict;

const char *sb_mtp_verdict_name(sb_mtp_verdict verdict); /* "FILE-BAD" */

typedef enum sb_mtp_state {
    SB_MTP_ok,
    SB_MTP_note,   /* worth knowing, but no reason to blame the file */
    SB_MTP_bad,    /* the file is at fault */
    SB_MTP_unknown /* not looked at: no payload was read, no configuration, nothing to look at */
} sb_mtp_state;

const char *sb_mtp_state_name(sb_mtp_state state); /* "ok", "note", "bad", "unknown" */

/* The questions, in the order of the report. Their names are the keys of the JSON report. */
typedef enum sb_mtp_question {
    SB_MTP_presence,       /* declared, and present */
    SB_MTP_count,          /* the number of tensors that a known exporter writes */
    SB_MTP_coverage,       /* every tensor that the configuration implies exists */
    SB_MTP_prefix,         /* exactly "mtp." */
    SB_MTP_index,          /* the index names all of them, and their files exist */
    SB_MTP_containers,     /* how its parts are stored */
    SB_MTP_representation, /* stored as the configuration declares */
    SB_MTP_scales,         /* the scales of quantized parts are in range */
    SB_MTP_values,         /* finite, not dead, not another module's, as large as the trunk's */
    SB_MTP_original,       /* equal to those of --against */
    SB_MTP_double_quantization, /* BF16 that was once quantized */
    SB_MTP_trained,             /* not the values of an initialization */
    SB_MTP_norms,               /* zero-centred, all of them */
    SB_MTP_QUESTIONS
} sb_mtp_question;

typedef struct sb_mtp_line {
    const char *key;   /* "double_quantization" */
    const char *title; /* "double quantization" */
    sb_mtp_state state;
    char text[320];  /* one line: what was found; names in it went through SB_SHOW */
    size_t findings; /* number of findings about mtp.* tensors that this line sums up */
} sb_mtp_line;

/* A row of loader_faults.def. */
typedef struct sb_loader_fault {
    const char *engine;    /* "vLLM" */
    const char *versions;  /* "before PR 41994 (2026-06)", as far as it is known */
    const char *reference; /* "vllm-project/vllm#41994": a public issue or pull request */
    const char *dated;     /* when the row was last checked: "2026-08" */
    int verified;          /* 1: the thread itself was read; 0: only reported by others */
    const char *what;      /* what the engine does with such a file */
    const char *layout;    /* the layout that it needs, in words */
} sb_loader_fault;

enum { SB_MTP_MAX_FAULTS = 32 };

/* An engine that the user drafts with. */
typedef struct sb_mtp_engine {
    const char *name;  /* "llamacpp", as --for has it */
    const char *in[2]; /* its names in loader_faults.def; NULL: it has no row there */
    const char *fetch; /* the command that saves its counters for accept; NULL: none */
} sb_mtp_engine;

/* Only letters and digits count, and case is ignored: "llama.cpp" is "llamacpp". NULL: no such
 * engine. */
const sb_mtp_engine *sb_mtp_engine_named(const char *name);
void sb_mtp_engine_names(char *text, size_t size); /* "vllm, sglang, ..." */

/* How a part of the head is stored. container is SB_CONTAINER_COUNT if the part does not exist. */
typedef struct sb_mtp_part {
    const char *name; /* "experts" */
    sb_container container;
    int mixed;       /* its modules are stored in different containers */
    int stacked;     /* experts in three dimensions */
    size_t modules;  /* number of existing modules */
    size_t expected; /* number that the configuration implies; 0 if it cannot be read */
} sb_mtp_part;

/* fc, attention, router, shared_expert_gate, shared_expert, experts, dense, norms */
enum { SB_MTP_PARTS = 8 };

typedef struct sb_mtp_audit {
    sb_mtp_verdict verdict;
    int has_config;
    int declared; /* the configuration has mtp_num_hidden_layers > 0 (or the family implies it) */
    uint32_t layers;           /* number of declared layers */
    uint64_t tensors;          /* number of tensors whose names begin with "mtp." */
    char fingerprint[96];      /* the exporter of this number: "19: stacked BF16" */
    uint64_t expected_tensors; /* number of tensors of the nearest known fingerprint */
    uint64_t found, implied;   /* identities of the head: modules and tensors of the architecture */
    uint64_t model_found, model_implied; /* identities of trunk and head together, as stored here */
    sb_mtp_part parts[SB_MTP_PARTS];
    sb_mtp_line lines[SB_MTP_QUESTIONS];
    /* for FILE-OK: the faults that match this layout */
    const sb_loader_fault *faults[SB_MTP_MAX_FAULTS];
    size_t fault_count;
    const sb_mtp_engine *engine; /* NULL: --for was not given */
    char next[2200];             /* the next command to type, or "" */
    /* for FILE-OK: two commands that show whether the engine is at fault, or "" */
    char settle[2][1400];
    char why[320]; /* the verdict in one sentence */
} sb_mtp_audit;

/* Fails only when memory runs out. */
sb_status sb_mtp_audit_make(const sb_check *check, sb_mtp_audit *out, sb_error *err);

#endif
