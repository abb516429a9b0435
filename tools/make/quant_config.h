/* quant_config.h - the quantization in the configuration files, in the dialect of the program that
 * writes the format (G-21). */
#ifndef SB_TOOLS_MAKE_QUANT_CONFIG_H
#define SB_TOOLS_MAKE_QUANT_CONFIG_H

#include "ref/base/status.h"
#include "tools/make/json_text.h"

struct sb_make_plan;
struct sb_make_tensor;

/* Writes the member `key` of config.json; nothing if nothing is quantized. */
void sb_make_write_quantization(sb_json_out *out, const char *key, const struct sb_make_plan *plan);

/* Writes the dialect's files next to config.json. */
sb_status sb_make_write_side_files(const struct sb_make_plan *plan, const char *dir, sb_error *err);

/* True if any dialect has such a file, which declares the checkpoint next to it. */
int sb_make_is_side_file(const char *name);

/* --- for the sources of the dialects ---------------------------------------------------------- */

/* If a tensor is the weight of an unquantized linear module: returns 1 and the module's name.
 * Routers count, because quantizing programs see them as linear layers; modules of mtp.* count,
 * too. */
typedef struct sb_make_module {
    char name[320];
} sb_make_module;
int sb_make_plain_linear(const struct sb_make_plan *plan, const struct sb_make_tensor *tensor,
                         sb_make_module *module);

/* sb_make_is_mtp: 1 for tensors of the MTP head. sb_make_is_vision: 1 for the vision tower. */
int sb_make_is_mtp(const struct sb_make_plan *plan, const struct sb_make_tensor *tensor);
int sb_make_is_vision(const struct sb_make_tensor *tensor);

/* The object of each dialect, with the members in the order of its program. */
void sb_make_write_compressed_tensors(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_modelopt(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_fp8(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_gptq(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_awq(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_auto_round(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_quark(sb_json_out *out, const struct sb_make_plan *plan);

/* The whole documents hf_quant_config.json, quantize_config.json and quantization_config.json. */
void sb_make_write_hf_quant(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_quantize_config(sb_json_out *out, const struct sb_make_plan *plan);
void sb_make_write_auto_round_file(sb_json_out *out, const struct sb_make_plan *plan);

#endif
