// Says whether this thread is between the begin and the end of a training step, where nothing may be allocated. Tests
// ask.
#pragma once

namespace zeroplan::runtime {

/// True on a lane's thread while it runs training steps.
bool is_inside_training_step();

/// Sets it for its lifetime.
class TrainingStepScope {
 public:
  TrainingStepScope();
  ~TrainingStepScope();
  TrainingStepScope(const TrainingStepScope&) = delete;
  TrainingStepScope& operator=(const TrainingStepScope&) = delete;
};

}  // namespace zeroplan::runtime
