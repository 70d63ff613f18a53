#include "runtime/step_scope.h"

namespace zeroplan::runtime {
namespace {

thread_local bool inside = false;

}  // namespace

bool is_inside_training_step() {
  return inside;
}
TrainingStepScope::TrainingStepScope() {
  inside = true;
}
TrainingStepScope::~TrainingStepScope() {
  inside = false;
}

}  // namespace zeroplan::runtime
