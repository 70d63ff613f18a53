#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/counter_random.h"
#include "runtime/weights/weight_source.h"

namespace zeroplan::runtime {
namespace {

/// (0, 1], from the upper 53 bits.
double unit_interval(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 1) * 0x1p-53;
}

/// Two normal values from one pair of uniform ones (Box and Muller): the cosine for even elements, the sine for odd
/// ones.
double normal_value(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t pair = index / 2;
  const double radius = std::sqrt(-2 * std::log(unit_interval(random_bits(seed, stream, 2 * pair))));
  const double angle = 2 * std::numbers::pi * unit_interval(random_bits(seed, stream, 2 * pair + 1));
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

class RandomWeights final : public WeightSource {
 public:
  RandomWeights(const models::Model& model, std::uint64_t seed) : model_(model), seed_(seed) {}

  void read(std::size_t parameter, Elements first, std::span<float> target) const override {
    const models::Parameter& p = model_.parameters.at(parameter);
    if (p.init == models::InitRule::kOnes || p.init == models::InitRule::kZeros) {
      std::fill(target.begin(), target.end(), p.init == models::InitRule::kOnes ? 1.0f : 0.0f);
      return;
    }
    const std::uint64_t stream = hash_text(p.name);
    for (std::size_t i = 0; i < target.size(); ++i) {
      target[i] = static_cast<float>(p.init_std * normal_value(seed_, stream, first.count() + i));
    }
  }

 private:
  const models::Model& model_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> random_weights(const models::Model& model, std::uint64_t seed) {
  return std::make_unique<RandomWeights>(model, seed);
}

}  // namespace zeroplan::runtime
