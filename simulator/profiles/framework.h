// What a framework keeps and does around the eager step. Main types: FrameworkProfile and one maker per framework.
#pragma once

#include <memory>

#include "simulator/profiles/eager_model.h"
#include "simulator/profiles/profile.h"

namespace zeroplan::simulator {

/// Holds the weights, states and buffers of one rank.
class FrameworkProfile : public UnitHooks {
 public:
  FrameworkProfile(EagerTape& tape, const EagerModel& model, const ProfileRequest& request)
      : tape_(tape), model_(model), request_(request) {}
  /// Allocates the weights.
  virtual void load() = 0;
  virtual void begin_backward() {}
  virtual void end_backward() {}
  /// One update; the first one creates the states.
  virtual void step(bool first) = 0;
  virtual void zero_gradients();

 protected:
  /// PyTorch's update over tensors of these sizes: states at the first one, temporaries of the implementation.
  void torch_update(const std::vector<std::uint64_t>& elements, DType dtype, bool first);

  EagerTape& tape_;
  const EagerModel& model_;
  const ProfileRequest& request_;
  std::vector<Tensor> states_;
};

std::unique_ptr<FrameworkProfile> make_pytorch(EagerTape& tape, const EagerModel& model, const ProfileRequest& request);
std::unique_ptr<FrameworkProfile> make_fsdp2(EagerTape& tape, const EagerModel& model, const ProfileRequest& request);
std::unique_ptr<FrameworkProfile> make_deepspeed(EagerTape& tape, const EagerModel& model,
                                                 const ProfileRequest& request);

}  // namespace zeroplan::simulator
