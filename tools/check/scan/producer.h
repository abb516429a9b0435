/* producer.h - the program that wrote the quantized layers, as far as the configuration tells. */
#ifndef SB_CHECK_PRODUCER_H
#define SB_CHECK_PRODUCER_H

#include "tools/check/read/check.h"

typedef enum sb_producer {
    SB_PRODUCER_unknown,
    SB_PRODUCER_compressed_tensors, /* llm-compressor and similar tools */
    SB_PRODUCER_modelopt,
    SB_PRODUCER_auto_round, /* under its own name, or as gptq, awq, fp8, compressed-tensors */
    SB_PRODUCER_fp8,        /* quant_method fp8: Qwen, transformers */
    SB_PRODUCER_gptq,
    SB_PRODUCER_awq
} sb_producer;

const char *sb_producer_name(sb_producer producer);

/* Reads config.json and quantization_config.json again, so do not call it for every tensor. */
sb_producer sb_producer_of(const sb_check *check);

/* 1 if AutoRound, as configured, may have moved codes by more than half a step. The steps of its
 * descent start at 1 / iterations and get smaller. AutoRound does not limit their sum. With few
 * iterations the sum exceeds half a step. */
int sb_producer_strays(const sb_check *check);

/* 1 if the producer is AutoRound and does not declare 0 iterations: it tunes codes and scales. */
int sb_producer_tunes(const sb_check *check);

#endif
