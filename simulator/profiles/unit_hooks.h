// Where a framework steps into an eager training step. Main type: UnitHooks. Depends on the tape.
#pragma once

#include <cstddef>

#include "simulator/profiles/eager_tape.h"

namespace zeroplan::simulator {

/// Called around each unit of the model (embedding, block, head). `unit` is an index into Model::units. Plain PyTorch
/// does nothing.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_forward(std::size_t) {}
  virtual void after_forward(std::size_t) {}
  /// The gradient of the unit's output is there.
  virtual void before_backward(std::size_t) {}
  /// The gradients of the unit's parameters and input have been computed.
  virtual void after_backward(std::size_t) {}
  /// A parameter's gradient was written to the tape's parameter.
  virtual void gradient_ready(ParameterId) {}
};

}  // namespace zeroplan::simulator
