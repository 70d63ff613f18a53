#include "runtime/step_scope.h"

namespace zeroplan::runtime {
namespace {

thread_local bool inside_step = false;

}  // namespace

bool is_inside_training_step() {
  return inside_step;
}
TrainingStepScope::TrainingStepScope() {
  inside_step = true;
}
TrainingStepScope::~TrainingStepScope() {
  inside_step = false;
}

}  // namespace zeroplan::runtime
