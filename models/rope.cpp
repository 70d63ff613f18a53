#include "models/rope.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace zeroplan::models {
namespace {

double positive(const JsonView& object, std::string_view key, double fallback) {
  if (!object.has(key)) return fallback;
  const double value = object.at(key).as_number();
  if (value <= 0)
    throw object.at(key).unexpected("a positive number").hint("compare it with the model's published config");
  return value;
}

double required(const JsonView& object, std::string_view key) {
  object.at(key);  // throws if absent
  return positive(object, key, 0);
}

}  // namespace

RopeSettings read_rope(const HfConfig& config, double default_theta) {
  RopeSettings rope;
  rope.theta = positive(config.view(), config.has("rotary_emb_base") ? "rotary_emb_base" : "rope_theta", default_theta);
  rope.partial_factor = positive(config.view(), config.has("rotary_pct") ? "rotary_pct" : "partial_rotary_factor", 1);
  const std::string_view key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.has(key)) return rope;
  const JsonView object = config.view().at(key);
  Json scaling = object.as_object();
  rope.theta = positive(object, "rope_theta", rope.theta);
  rope.partial_factor = positive(object, "partial_rotary_factor", rope.partial_factor);
  rope.type = object.string_or("rope_type", object.string_or("type", "default"));
  if (rope.type == "default") return rope;
  scaling.erase("type");
  scaling["rope_type"] = rope.type;
  if (rope.type == "linear" || rope.type == "llama3") required(object, "factor");
  if (rope.type == "llama3") {
    const double low = required(object, "low_freq_factor");
    const double high = required(object, "high_freq_factor");
    required(object, "original_max_position_embeddings");
    if (high <= low) throw object.at("high_freq_factor").unexpected("more than low_freq_factor");
  }
  rope.scaling = std::move(scaling);
  return rope;
}

bool is_rope_known(const std::string& type) {
  return type == "default" || type == "linear" || type == "llama3";
}

std::vector<double> inverse_frequencies(const DecoderShape& shape) {
  std::vector<double> frequencies(shape.head_size / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(shape.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_size));
  }
  if (!shape.rope_scaling) return frequencies;
  const JsonView scaling(*shape.rope_scaling, "the model's config", "rope_scaling");
  const std::string type = scaling.string_or("rope_type", "default");
  if (!is_rope_known(type)) {
    throw Error(ErrorCode::kUnsupported, fmt::format("rope_scaling {}: expected default, linear or llama3", type))
        .at({.key = "rope_scaling.rope_type", .value = type});
  }
  if (type == "default") return frequencies;
  const double factor = required(scaling, "factor");
  if (type == "linear") {
    for (double& frequency : frequencies) frequency /= factor;
    return frequencies;
  }
  // llama3: long wavelengths are stretched by the factor, short ones stay, between them a linear blend.
  const double low = required(scaling, "low_freq_factor");
  const double high = required(scaling, "high_freq_factor");
  const double length = required(scaling, "original_max_position_embeddings");
  for (double& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < length / high) continue;
    if (wavelength > length / low) {
      frequency /= factor;
      continue;
    }
    const double smooth = (length / wavelength - low) / (high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
  return frequencies;
}

}  // namespace zeroplan::models
