// Optimizers and schedulers that a ds_config may name, with the parameters that their constructors take. Facts:
// DeepSpeed 0.19.6, torch 2.8. Depends on nothing.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace zeroplan::planner::deepspeed {

/// One class. Names of parameters are joined by '|'.
struct ClassSpec {
  std::string_view name;
  std::string_view parameters;
  std::string_view required = "";
  bool is_torch = false;       ///< a class of torch, whose name must be exact
  bool needs_objects = false;  ///< takes functions or other objects, which JSON does not have
};

/// All classes; DeepSpeed's own first.
std::span<const ClassSpec> optimizer_classes();
std::span<const ClassSpec> scheduler_classes();

/// The class that DeepSpeed builds for a type: its own optimizers in any case, schedulers and torch's classes by their
/// exact names; null if there is none.
const ClassSpec* find_optimizer_class(std::string_view type);
const ClassSpec* find_scheduler_class(std::string_view type);

/// Parts of a joined list.
std::vector<std::string_view> names_of(std::string_view joined);

}  // namespace zeroplan::planner::deepspeed
