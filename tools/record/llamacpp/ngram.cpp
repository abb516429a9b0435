// ngram.cpp - the drafts of llama.cpp's `ngram-simple` for texts on standard input.
//
// A line "N K ID ID ..." is a text whose last id was just sampled. The answer is a line with the drafts, maybe empty.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "ngram-map.h"

int main()
{
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        common_ngram_simple_config config;
        llama_tokens text;
        words >> config.size_ngram >> config.size_mgram;
        for (llama_token id; words >> id;)
            text.push_back(id);
        const llama_token sampled = text.back();
        text.pop_back();
        const char *before = "";
        for (llama_token id : common_ngram_simple_draft(config, text, sampled)) {
            std::printf("%s%d", before, id);
            before = " ";
        }
        std::printf("\n");
    }
    return 0;
}
