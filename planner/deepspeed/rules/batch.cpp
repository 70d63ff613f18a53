#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "planner/deepspeed/coercion.h"
#include "planner/deepspeed/elasticity.h"
#include "planner/deepspeed/rules/rules.h"
#include "planner/deepspeed/value_text.h"

namespace zeroplan::planner::deepspeed {
namespace {

constexpr const char* kTotal = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kSteps = "gradient_accumulation_steps";
constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// A batch size as the file has it after filling: absent, unusable, or a whole number.
struct Part {
  bool present = false;
  bool usable = true;
  std::int64_t value = 0;
};

std::string ranks_of(std::uint64_t world) {
  return fmt::format("{} rank{}", world, world == 1 ? "" : "s");
}

Part read_part(Workspace& work, const char* path) {
  Part part;
  const Json* value = work.filled.find(path);
  if (value == nullptr || value->is_null()) return part;
  part.present = true;
  const auto number = value->is_number() ? coerce_integer(*value) : std::nullopt;
  if (number && *number <= kMost && *number >= -kMost) {
    part.value = *number;
    if (value->is_number_float()) {
      work.findings.warning(
          path, fmt::format("{} is the float {}; the data loader wants an integer", path, shown_value(*value)),
          fmt::format("write {}", *number), *number);
    }
    return part;
  }
  part.usable = false;
  if (*value == "auto" || work.findings.has_error(path)) return part;
  const auto meant = coerce_integer(*value);
  Json suggest = meant && *meant > 0 && value->is_string() ? Json(*meant) : Json(nullptr);
  work.findings.error(
      path, fmt::format("{} is {} ({}), expected an integer of at least 1", path, shown_value(*value), kind_of(*value)),
      suggest.is_null() ? "write an integer" : fmt::format("write {} without quotes", *meant), suggest);
  return part;
}

/// Data-parallel ranks: sequence and tensor parallel groups share one batch.
std::uint64_t data_parallel_ranks(Workspace& work) {
  std::uint64_t world = std::max<std::uint64_t>(work.input.training.gpus, 1);
  for (const char* path : {"sequence_parallel_size", "tensor_parallel.autotp_size"}) {
    const std::int64_t size = work.integer(path, 1);
    if (size <= 1) continue;
    const auto group = static_cast<std::uint64_t>(size);
    if (world % group != 0) {
      work.findings.error(path, fmt::format("{} {} does not divide {}", path, group, ranks_of(world)),
                          fmt::format("write a divisor of {}", world));
      continue;
    }
    world /= group;
  }
  return world;
}

std::string rank_counts(std::int64_t total, std::int64_t micro) {
  std::string text;
  int listed = 0;
  const std::int64_t most = micro > 0 ? total / micro : 0;
  for (std::int64_t n = 1; n <= std::min<std::int64_t>(most, 1024) && listed < 8; ++n) {
    if ((total / micro) % n != 0 || total % micro != 0) continue;
    text += fmt::format("{}{}", listed == 0 ? "" : ", ", n);
    ++listed;
  }
  return text;
}

/// floor division as Python has it, for positive divisors.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

void report_zero(Workspace& work, const char* derived, const std::string& how, std::int64_t total, std::int64_t least) {
  work.findings.error(derived, fmt::format("{} becomes 0: {}; it has to be greater than 0", derived, how),
                      fmt::format("raise train_batch_size from {} to at least {}", total, least), nullptr);
}

void report_product(Workspace& work, std::int64_t total, std::int64_t micro, std::int64_t steps, std::int64_t world,
                    const Part& given_steps) {
  const std::int64_t product = micro * steps * world;
  const std::int64_t unit = given_steps.present ? micro * steps : micro;
  std::string fix;
  Json suggest = product;
  if (given_steps.present && unit > 0 && total % unit == 0) {
    fix = fmt::format("run on {} ranks, or write train_batch_size {}", total / unit, product);
  } else {
    const std::int64_t step = std::max<std::int64_t>(unit * world, 1);
    const std::int64_t below = total / step * step;
    const std::string ranks = rank_counts(total, micro);
    fix = below > 0 ? fmt::format("write train_batch_size {} or {}", below, below + step)
                    : fmt::format("write train_batch_size {}", step);
    suggest = below > 0 ? below : step;
    if (!ranks.empty()) fix += fmt::format(", or run on {} ranks", ranks);
  }
  work.findings.error(
      kTotal,
      fmt::format("train_batch_size is {}, but {} per rank x {} accumulated x {} = {}; DeepSpeed stops with \"Check "
                  "batch related parameters\"",
                  total, micro, steps, ranks_of(static_cast<std::uint64_t>(world)), product),
      fix, suggest);
}

/// True where the trainer already refuses a batch size: what DeepSpeed's arithmetic makes of it is a consequence.
bool trainer_refuses(const Workspace& work) {
  return work.is_trainer() &&
         (work.findings.has_error(kTotal) || work.findings.has_error(kMicro) || work.findings.has_error(kSteps));
}

bool report_not_positive(Workspace& work, const Part& part, const char* path) {
  if (!part.present || !part.usable || part.value > 0) return false;
  work.findings.error(path, fmt::format("{} is {}, expected at least 1", path, part.value), "write 1 or more", 1);
  return true;
}

}  // namespace

void resolve_batch(Workspace& work) {
  ResolvedBatch& resolved = work.report.resolved;
  resolved.world_size = data_parallel_ranks(work);
  if (apply_elasticity(work)) return;
  const auto world = static_cast<std::int64_t>(resolved.world_size);
  const Part total = read_part(work, kTotal);
  const Part micro = read_part(work, kMicro);
  const Part steps = read_part(work, kSteps);
  bool wrong = report_not_positive(work, total, kTotal);
  wrong |= report_not_positive(work, micro, kMicro);
  wrong |= report_not_positive(work, steps, kSteps);
  const auto shown = [](const Part& part) { return part.present && part.usable ? Json(part.value) : Json(nullptr); };
  resolved.train_batch_size = shown(total);
  resolved.micro_batch_size = shown(micro);
  resolved.accumulation_steps = shown(steps);
  if (!total.usable || !micro.usable || !steps.usable || wrong) return;
  if (!total.present && !micro.present) {
    work.findings.error(
        kTotal, "neither train_batch_size nor train_micro_batch_size_per_gpu is given; DeepSpeed needs one of them",
        work.is_trainer() ? "write \"auto\" for both" : "write train_micro_batch_size_per_gpu",
        work.is_trainer() ? Json("auto") : Json(nullptr));
    return;
  }
  const bool is_consequence = trainer_refuses(work);
  std::int64_t t = total.value;
  std::int64_t m = micro.value;
  std::int64_t a = steps.value;
  if (total.present && micro.present && !steps.present) {
    a = floor_divide(floor_divide(t, m), world);
    if (a == 0 && !is_consequence)
      report_zero(work, kSteps, fmt::format("{} // {} // {}", t, m, ranks_of(resolved.world_size)), t, m * world);
  } else if (total.present && !micro.present) {
    if (!steps.present) a = 1;
    m = floor_divide(floor_divide(t, world), a);
    if (m == 0 && !is_consequence)
      report_zero(work, kMicro, fmt::format("{} // {} // {} accumulated", t, ranks_of(resolved.world_size), a), t,
                  a * world);
  } else if (!total.present) {
    if (!steps.present) a = 1;
    if (m > kMost / a / world) {
      work.findings.error(kTotal, "micro batch x accumulation x ranks is too large to be a batch size",
                          "write smaller numbers");
      return;
    }
    t = m * a * world;
  }
  resolved.train_batch_size = t;
  resolved.micro_batch_size = m;
  resolved.accumulation_steps = a;
  if (m <= 0 || a <= 0) return;
  const bool overflows = m > kMost / a || m * a > kMost / world;
  if (overflows || t != m * a * world) {
    if (is_consequence) return;  // the mismatch with the arguments says it
    if (overflows) {
      work.findings.error(kTotal, "micro batch x accumulation x ranks is far beyond train_batch_size",
                          "write smaller numbers");
    } else {
      report_product(work, t, m, a, world, steps);
    }
  }
}

}  // namespace zeroplan::planner::deepspeed
