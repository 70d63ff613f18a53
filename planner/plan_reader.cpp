#include <unordered_map>

#include <fmt/format.h>

#include "models/load_model.h"
#include "planner/plan_json.h"
#include "planner/program_json.h"
#include "planner/schedule/skeleton.h"
#include "planner/verify.h"

namespace zeroplan::planner {
namespace {

/// Puts order, waits and offsets of a file into the skeleton that its model and decisions demand.
class PlanReader {
 public:
  PlanReader(const Json& document, const std::string& file) : root_(document, file) {}

  Plan read() {
    expect(root_.at("format"), "zeroplan/plan");
    expect(root_.at("version"), 1);
    const JsonView model = root_.at("model");
    plan_ = build_skeleton(read_model(model), Machine::from_json(root_.at("machine")),
                           TrainingSpec::from_json(root_.at("training")), Strategy::from_json(root_.at("strategy")));
    expect(root_.at("comm"), name_of(plan_.training.comm));
    expect(root_.at("backend"), name_of(plan_.training.backend));
    expect(root_.at("gpus"), plan_.training.gpus);
    expect(root_.at("nodes"), plan_.training.nodes);
    read_programs();
    read_buffers();
    read_steps();
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) read_tier(tier);
    return std::move(plan_);
  }

 private:
  static void expect(const JsonView& value, const Json& wanted) {
    if (value.json() != wanted) throw value.unexpected(wanted.dump());
  }

  static models::Model read_model(const JsonView& view) {
    models::Model model = models::build_model(view.at("config").json(), view.at("source").as_string());
    model.name = view.at("name").as_string();
    expect(view.at("family"), model.family);
    return model;
  }

  void read_programs() {
    const JsonView list = root_.at("programs");
    if (list.array_size() != plan_.programs.size())
      throw list.unexpected(fmt::format("{} programs", plan_.programs.size()));
    for (std::size_t i = 0; i < plan_.programs.size(); ++i) read_program_frame(list.at(i), plan_.programs[i]);
  }

  void read_buffers() {
    const JsonView list = root_.at("buffers");
    if (list.array_size() != plan_.buffers.size())
      throw list.unexpected(fmt::format("{} buffers", plan_.buffers.size()));
    for (Buffer& buffer : plan_.buffers) {
      const JsonView item = list.at(buffer.id);
      expect(item.at("id"), buffer.id);
      expect(item.at("name"), buffer.name);
      expect(item.at("tier"), name_of(buffer.tier));
      if (item.at("bytes").as_count() != buffer.bytes.count()) {
        throw item.at("bytes").unexpected(fmt::format("{}, as model and decisions demand", buffer.bytes.count()));
      }
      buffer.offset = Bytes(item.at("offset").as_count());
      const JsonView live = item.at("live");
      if (buffer.always) {
        expect(live, "always");
      } else {
        buffer.first = read_id(live.at("first"));
        buffer.last = read_id(live.at("last"));
      }
    }
  }

  static TaskId read_id(const JsonView& view) {
    const std::uint64_t id = view.as_count();
    if (id > 0xffffffffu) throw view.unexpected("a task id below 2^32");
    return static_cast<TaskId>(id);
  }

  void read_steps() {
    const JsonView list = root_.at("steps");
    if (list.array_size() != plan_.steps.size()) throw list.unexpected(fmt::format("{} steps", plan_.steps.size()));
    std::int64_t last_id = -1;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) read_step(list.at(i), plan_.steps[i], last_id);
  }

  void read_step(const JsonView& view, Step& step, std::int64_t& last_id) {
    expect(view.at("name"), step.name);
    std::unordered_map<std::string, Task*> by_key;
    for (Task& task : step.tasks) by_key.emplace(task.key, &task);
    const JsonView list = view.at("tasks");
    std::vector<Task> ordered;
    ordered.reserve(step.tasks.size());
    for (std::size_t i = 0; i < list.array_size(); ++i) {
      const JsonView item = list.at(i);
      const auto found = by_key.find(item.at("key").as_string());
      if (found == by_key.end() || found->second == nullptr) {
        throw item.at("key").unexpected("the key of a task that model and decisions demand, once");
      }
      Task task = std::move(*found->second);
      found->second = nullptr;
      read_task(item, task);
      if (static_cast<std::int64_t>(task.id) <= last_id)
        throw item.at("id").unexpected("ids that grow through the plan");
      last_id = task.id;
      ordered.push_back(std::move(task));
    }
    for (const auto& [key, task] : by_key) {
      if (task != nullptr) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("{}: step {} lacks the task {}", root_.file(), step.name, key))
            .at({.file = root_.file(), .key = view.path() + ".tasks"})
            .hint("make the plan again: zeroplan plan");
      }
    }
    step.tasks = std::move(ordered);
  }

  void read_task(const JsonView& view, Task& task) const {
    task.id = read_id(view.at("id"));
    expect(view.at("kind"), name_of(task.kind));
    expect(view.at("lane"), name_of(task.lane));
    expect(view.at("unit"), task.unit == kNoIndex ? Json(nullptr) : Json(plan_.model.units[task.unit].name));
    expect(view.at("program"), task.program == kNoIndex ? Json(nullptr) : Json(plan_.programs[task.program].name));
    expect(view.at("frame"), task.frame == kNoBuffer ? Json(nullptr) : Json(task.frame));
    expect_accesses(view.at("reads"), task.reads);
    expect_accesses(view.at("writes"), task.writes);
    task.waits.clear();
    const JsonView waits = view.at("waits");
    for (std::size_t i = 0; i < waits.array_size(); ++i) task.waits.push_back(read_id(waits.at(i)));
    task.waits_previous.clear();
    const JsonView previous = view.at("waits_previous");
    for (std::size_t i = 0; i < previous.array_size(); ++i) task.waits_previous.push_back(previous.at(i).as_string());
  }

  void expect_accesses(const JsonView& view, const std::vector<Access>& wanted) const {
    if (view.array_size() != wanted.size()) throw view.unexpected(fmt::format("{} accesses", wanted.size()));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const JsonView item = view.at(i);
      const Access& access = wanted[i];
      const bool whole = access.offset == Bytes() && access.bytes == plan_.buffers[access.buffer].bytes;
      expect(item, whole ? Json(access.buffer) : Json{access.buffer, access.offset.count(), access.bytes.count()});
    }
  }

  void read_tier(Tier tier) {
    TierPlan& t = plan_.tier(tier);
    const JsonView view = root_.at("tiers").at(name_of(tier));
    expect(view.at("alignment"), t.alignment);
    expect(view.at("budget_bytes"), t.budget ? Json(t.budget->count()) : Json(nullptr));
    t.arena = Bytes(view.at("arena_bytes").as_count());
    t.lower_bound = Bytes(view.at("lower_bound_bytes").as_count());
    const JsonView holders = view.at("lower_bound_holders");
    t.lower_bound_holders.clear();
    for (std::size_t i = 0; i < holders.array_size(); ++i) {
      const std::uint64_t id = holders.at(i).as_count();
      if (id >= plan_.buffers.size()) throw holders.at(i).unexpected("the id of a buffer");
      t.lower_bound_holders.push_back(static_cast<BufferId>(id));
    }
    t.op_lower_bound = Bytes(view.at("op_lower_bound_bytes").as_count());
  }

  JsonView root_;
  Plan plan_;
};

}  // namespace

Plan plan_from_json(const Json& document, const std::string& file) {
  try {
    return PlanReader(document, file).read();
  } catch (Error& e) {
    // A plan's decisions come from the file, not from flags: what contradicts itself there is invalid input.
    if (e.code() == ErrorCode::kUsage || e.code() == ErrorCode::kOverflow) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", file, e.message())).at(e.place()).at({.file = file});
    }
    throw;
  }
}

Plan load_plan(const std::filesystem::path& path) {
  const Json document = read_json_file(path, {.most_bytes = kMostPlanBytes.count()});
  Plan plan = plan_from_json(document, path.string());
  const auto problems = verify(plan);
  if (!problems.empty()) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: the plan does not verify ({} {}): {}", path.string(), problems.size(),
                            problems.size() == 1 ? "problem" : "problems", problems.front()))
        .at({.file = path.string()})
        .hint("make the plan again: zeroplan plan");
  }
  return plan;
}

}  // namespace zeroplan::planner
