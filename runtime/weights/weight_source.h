// First values of parameters. Purpose: random, or from safetensors, element range by element range, so that a rank
// reads or makes only its shard. Main types: WeightSource; `fill_group` puts them where the plan wants them. Depends on
// models and planner/plan.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "runtime/state_pieces.h"

namespace zeroplan::runtime {

/// Safe to call from several threads.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Elements [first, first + target.size()) of a parameter in the order in which Hugging Face stores it.
  virtual void read(std::size_t parameter, Elements first, std::span<float> target) const = 0;
};

/// By the parameters' init rules, from (seed, name, element index) alone.
std::unique_ptr<WeightSource> random_weights(const models::Model& model, std::uint64_t seed);

/// From a folder, an index or a file. \throws Error{kInvalidInput} if a parameter is missing or has another shape or
/// type; Error{kIo}
std::unique_ptr<WeightSource> safetensors_weights(const models::Model& model, const std::filesystem::path& source);

/// Fills parameters and master weights of a group, padding with zeros. \param threads  that share the work
void fill_group(const planner::Plan& plan, const GroupState& group, const WeightSource& source, int threads = 1);

}  // namespace zeroplan::runtime
