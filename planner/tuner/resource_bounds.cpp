#include "planner/tuner/resource_bounds.h"

#include <algorithm>
#include <array>

namespace zeroplan::planner {
namespace {

/// How often a training step runs in one update.
double times_in_cycle(const Plan& plan, const Step& step) {
  if (!step.is_training()) return 0;
  return step.name == "middle" ? static_cast<double>(plan.strategy.accumulation) - 2.0 : 1.0;
}

bool is_arithmetic(TaskKind kind) {
  return kind == TaskKind::kForward || kind == TaskKind::kLoss || kind == TaskKind::kBackward;
}

/// A place on the compute lane where a buffer is used.
struct Use {
  std::uint32_t position = 0;
  bool reads = false;
};

struct BufferUses {
  std::vector<Use> uses;             ///< of the compute lane, by position
  bool is_filled_elsewhere = false;  ///< another lane writes it in this step: between uses it may hold nothing
};

void note_uses(const Task& task, std::uint32_t position, std::vector<BufferUses>& users) {
  const bool computes = task.lane == Lane::kCompute;
  const auto note = [&](const Access& access, bool reads) {
    BufferUses& user = users[access.buffer];
    if (!computes) {
      user.is_filled_elsewhere = user.is_filled_elsewhere || !reads;
    } else if (user.uses.empty() || user.uses.back().position != position) {
      user.uses.push_back({position, reads});
    }
  };
  for (const Access& access : task.reads) note(access, true);
  for (const Access& access : task.writes) note(access, false);
}

/// Marks buffers that hold what programs compute.
std::vector<bool> activation_buffers(const Plan& plan) {
  std::vector<bool> is_activation(plan.buffers.size(), false);
  const auto mark = [&](BufferId id) {
    if (id != kNoBuffer) is_activation[id] = true;
  };
  for (const Step& step : plan.steps) {
    for (const Task& task : step.tasks) {
      const auto* work = std::get_if<ComputeWork>(&task.work);
      if (work == nullptr) continue;
      for (const BufferId id : {work->input, work->output, work->residual_gradient, work->saved, task.frame}) mark(id);
    }
  }
  return is_activation;
}

/// The most bytes that the compute lane keeps at one of its tasks in a step, always-live buffers left out.
/// \param counted  per buffer; empty: all
Bytes fullest_task(const Plan& plan, const Step& step, const std::vector<bool>& counted) {
  const std::uint64_t alignment = plan.tier(Tier::kDevice).alignment;
  std::vector<BufferUses> users(plan.buffers.size());
  std::uint32_t position = 0;
  for (const Task& task : step.tasks) {
    note_uses(task, position, users);
    if (task.lane == Lane::kCompute) ++position;
  }
  std::vector<std::uint64_t> begins(position + 1, 0);
  std::vector<std::uint64_t> ends(position + 1, 0);
  for (const Buffer& buffer : plan.buffers) {
    const BufferUses& user = users[buffer.id];
    if (buffer.always || buffer.tier != Tier::kDevice) continue;
    if (!counted.empty() && !counted[buffer.id]) continue;
    const std::uint64_t bytes = round_up(buffer.bytes, alignment).count();
    for (std::size_t u = 0; u < user.uses.size(); ++u) {
      // From a use to the next one if that reads what is there, else at this one only.
      const bool goes_on = u + 1 < user.uses.size() && user.uses[u + 1].reads && !user.is_filled_elsewhere;
      begins[user.uses[u].position] += bytes;
      ends[goes_on ? user.uses[u + 1].position : user.uses[u].position + 1] += bytes;
    }
  }
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  for (std::uint32_t p = 0; p < position; ++p) {
    live = live + begins[p] - ends[p];
    most = std::max(most, live);
  }
  return Bytes(most);
}

}  // namespace

Seconds arithmetic_time(const Plan& skeleton, const CostModel& costs) {
  std::vector<Seconds> of_program;
  for (const models::Program& program : skeleton.programs) of_program.push_back(costs.program(program));
  Seconds sum;
  for (const Step& step : skeleton.steps) {
    const double times = times_in_cycle(skeleton, step);
    for (const Task& task : step.tasks) {
      if (times > 0 && is_arithmetic(task.kind) && task.program < of_program.size())
        sum += of_program[task.program] * times;
    }
  }
  return sum;
}

Seconds busiest_lane_time(const Plan& skeleton, const CostModel& costs) {
  std::vector<Seconds> of_program;
  for (const models::Program& program : skeleton.programs) of_program.push_back(costs.program(program));
  std::array<Seconds, kLaneCount> lanes{};
  for (const Step& step : skeleton.steps) {
    const double times = times_in_cycle(skeleton, step);
    if (!(times > 0)) continue;
    for (const Task& task : step.tasks) {
      const bool by_program = std::holds_alternative<ComputeWork>(task.work) && task.program < of_program.size();
      const Seconds time = by_program ? of_program[task.program] : costs.task(skeleton, task);
      lanes[static_cast<std::size_t>(task.lane)] += time * times;
    }
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

Bytes always_live_bytes(const Plan& skeleton) {
  const std::uint64_t alignment = skeleton.tier(Tier::kDevice).alignment;
  Bytes always;
  for (const Buffer& buffer : skeleton.buffers) {
    if (buffer.always && buffer.tier == Tier::kDevice) always += round_up(buffer.bytes, alignment);
  }
  return always;
}

Bytes activation_bytes_at_least(const Plan& skeleton) {
  const std::vector<bool> counted = activation_buffers(skeleton);
  Bytes most;
  for (const Step& step : skeleton.steps) {
    if (step.is_training()) most = std::max(most, fullest_task(skeleton, step, counted));
  }
  return most;
}

Bytes device_bytes_at_least(const Plan& skeleton) {
  Bytes most;
  for (const Step& step : skeleton.steps) {
    if (step.is_training()) most = std::max(most, fullest_task(skeleton, step, {}));
  }
  return always_live_bytes(skeleton) + most;
}

}  // namespace zeroplan::planner
