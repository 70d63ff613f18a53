#include "models/model.h"

namespace zeroplan::models {

Elements Model::total() const {
  Elements sum;
  for (const Parameter& parameter : parameters) sum += parameter.shape.elements();
  return sum;
}

Elements Model::trainable() const {
  Elements sum;
  for (const Parameter& parameter : parameters) {
    if (parameter.trainable) sum += parameter.shape.elements();
  }
  return sum;
}

Elements Model::with_tied_twice() const {
  Elements sum = total();
  for (const TiedName& second : tied) sum += parameters.at(second.parameter).shape.elements();
  return sum;
}

Elements Model::active() const {
  Elements sum;
  for (const Parameter& parameter : parameters) {
    const Elements elements = parameter.shape.elements();
    sum += parameter.is_expert && experts > 0 ? elements / experts * experts_per_token : elements;
  }
  return sum;
}

}  // namespace zeroplan::models
