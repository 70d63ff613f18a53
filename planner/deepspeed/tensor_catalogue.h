// Tensors of a training step whose size follows from the model and the run, to put a name to a failed request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/deepspeed/check.h"

namespace zeroplan::planner::deepspeed {

/// A tensor that a step allocates in one piece.
struct CatalogueTensor {
  std::string name;
  std::string dtype;
  double bytes = 0;
  std::string formula;
  double bytes_per_token = 0;  ///< 0 where the size does not grow in proportion to the tokens
  int likelihood = 0;          ///< larger first among equal matches
  std::string advice;
};

/// All candidates for the model of `input`, which must have one.
std::vector<CatalogueTensor> catalogue_of(const CheckInput& input);

}  // namespace zeroplan::planner::deepspeed
