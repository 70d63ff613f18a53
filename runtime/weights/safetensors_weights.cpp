#include <array>
#include <vector>

#include <fmt/format.h>

#include "kernels/ranges.h"
#include "models/safetensors.h"
#include "runtime/weights/weight_source.h"

namespace zeroplan::runtime {
namespace {

using models::TensorIndex;

/// Published files of base models leave out the prefix that a model with a head has.
TensorIndex::Found find_tensor(const TensorIndex& index, const std::string& name) {
  TensorIndex::Found found = index.find(name);
  for (const std::string_view prefix : {"transformer.", "model."}) {
    if (found.entry == nullptr && name.starts_with(prefix)) found = index.find(name.substr(prefix.size()));
  }
  return found;
}

class SafetensorsWeights final : public WeightSource {
 public:
  SafetensorsWeights(const models::Model& model, const std::filesystem::path& source)
      : index_(TensorIndex::open(source)) {
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      const models::Parameter& parameter = model.parameters[p];
      TensorIndex::Found found = find_tensor(index_, parameter.name);
      for (const models::TiedName& tied : model.tied) {
        if (found.entry == nullptr && tied.parameter == p) found = find_tensor(index_, tied.name);
      }
      check(parameter, found, source);
      found_.push_back(found);
    }
  }

  void read(std::size_t parameter, Elements first, std::span<float> target) const override {
    const TensorIndex::Found& found = found_.at(parameter);
    const DType dtype = *found.entry->dtype;
    if (dtype == DType::kFp32) {
      found.file->read(*found.entry, first * dtype, std::as_writable_bytes(target));
      return;
    }
    std::array<std::uint16_t, 8192> block;
    for (std::size_t done = 0; done < target.size(); done += block.size()) {
      const std::size_t n = std::min(block.size(), target.size() - done);
      found.file->read(*found.entry, (first + Elements(done)) * dtype,
                       std::as_writable_bytes(std::span(block).first(n)));
      kernels::reference::copy({.dtype = dtype, .count = n, .x = block.data(), .out = target.data() + done});
    }
  }

 private:
  static void check(const models::Parameter& parameter, const TensorIndex::Found& found,
                    const std::filesystem::path& source) {
    const auto wrong = [&](const std::string& text) {
      return Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", source.string(), text))
          .at({.file = source.string(), .key = parameter.name})
          .hint("--init takes the weights of the model that the plan was made for");
    };
    if (found.entry == nullptr) throw wrong(fmt::format("no tensor {}", parameter.name));
    if (found.entry->shape != parameter.shape) {
      throw wrong(fmt::format("{} has the shape {}, expected {}", parameter.name, to_string(found.entry->shape),
                              to_string(parameter.shape)));
    }
    const auto dtype = found.entry->dtype;
    if (dtype != DType::kFp32 && dtype != DType::kBf16 && dtype != DType::kFp16) {
      throw wrong(
          fmt::format("{} has the type {}, expected F32, BF16 or F16", parameter.name, found.entry->dtype_name));
    }
  }

  TensorIndex index_;
  std::vector<TensorIndex::Found> found_;  ///< by parameter
};

}  // namespace

std::unique_ptr<WeightSource> safetensors_weights(const models::Model& model, const std::filesystem::path& source) {
  return std::make_unique<SafetensorsWeights>(model, source);
}

}  // namespace zeroplan::runtime
