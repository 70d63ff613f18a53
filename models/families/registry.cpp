#include <algorithm>
#include <array>

#include "models/families/families.h"

namespace zeroplan::models {
namespace {

constexpr std::array kFamilies = {
    Family{"gpt2", build_gpt2, "resid_pdrop = 0.1"},
    Family{"llama", build_llama},
    Family{"mistral", build_mistral},
    Family{"qwen2", build_qwen2},
    Family{"qwen3", build_qwen3},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto it = std::find_if(kFamilies.begin(), kFamilies.end(),
                               [&](const Family& family) { return family.model_type == model_type; });
  return it == kFamilies.end() ? nullptr : &*it;
}

}  // namespace zeroplan::models
